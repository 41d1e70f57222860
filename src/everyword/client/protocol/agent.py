"""One client of one agent of any kind, without a socket: identity, state, method calls, and the agent's own frames.

With a `ChatProtocol` inside, it is the whole protocol of a chat client: it passes the frames of the chat on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .agent_state import AgentState
from .chat import ChatProtocol
from .outbox import ClientOutbox

__all__ = ["AgentProtocol", "PendingCall"]

JsonObject = dict[str, Any]


@dataclass(slots=True)
class PendingCall:
    """One call of a method of the agent."""

    frame: str
    chunks: deque[Any] = field(default_factory=deque)
    """What a streaming method has sent and the caller has not read yet."""
    result: Any = None
    error: str | None = None
    is_sent: bool = False
    is_done: bool = False
    is_lost: bool = False
    """True if the connection was lost after the call was sent: the method may have run or not."""

    def answer(self, frame: JsonObject) -> None:
        """Process an answer: the result, an error, or one more chunk."""
        if not frame.get("success"):
            self.error, self.is_done = str(frame.get("error") or "Unknown error occurred"), True
        elif frame.get("done", True):
            self.result, self.is_done = frame.get("result"), True
        else:
            self.chunks.append(frame.get("result"))


class AgentProtocol:
    """The state of one agent as one client knows it, and the frames that the client has to send."""

    def __init__(self, chat: ChatProtocol | None = None) -> None:
        self.chat = chat
        self.identity: JsonObject | None = None
        self.state = AgentState()
        self.calls: dict[str, PendingCall] = {}
        self.others: list[JsonObject | str] = []
        """Frames that belong neither to the agent's protocol nor to the chat's. The reader empties the list."""
        self.frames = 0
        """Number of frames received on this connection."""
        self._outbox = ClientOutbox("state")

    # -- the connection --------------------------------------------------------------------------------------------

    def connected(self) -> None:
        self.frames = 0
        self._outbox.connected()
        if self.chat is not None:
            self.chat.connected()

    def disconnected(self, *, is_deleted: bool = False) -> None:
        """End the calls that were sent: their answers are lost. Everything else waits for the next connection.

        If the agent was deleted, questions end, too.
        """
        self._outbox.disconnected()
        for call in self.calls.values():
            if call.is_sent and not call.is_done:
                call.is_done = call.is_lost = True
        if self.chat is not None:
            self.chat.disconnected(is_deleted=is_deleted)

    def frames_to_send(self) -> list[str | bytes]:
        """Return, once, the frames that are to be sent now. Calls among them count as sent from here on."""
        if not self._outbox.is_connected:
            return []
        outgoing = self._outbox.frames_to_send()
        for call in self.calls.values():
            if not call.is_sent:
                call.is_sent = True
                outgoing.append(call.frame)
        if self.chat is not None:
            outgoing += self.chat.frames_to_send()
        return outgoing

    # -- commands --------------------------------------------------------------------------------------------------

    def set_state(self, state: Any) -> str:
        """Replace the state, here at once and on the server soon; return the change, for `is_confirmed`."""
        change = self._outbox.command(type="cf_agent_state", state=state)
        self.state.change(change, state)
        return change

    def is_confirmed(self, change: str) -> bool:
        """Tell whether the server has processed a change of the state; it may have refused it."""
        return self._outbox.is_confirmed(change)

    def call(self, call_id: str, method: str, args: list[Any]) -> PendingCall:
        """Call a method; the returned call is filled when its answer arrives."""
        frame = msgspec.json.encode({"type": "rpc", "id": call_id, "method": method, "args": args}).decode()
        call = self.calls[call_id] = PendingCall(frame)
        return call

    def forget(self, call_id: str) -> None:
        """Ignore the answer to a call; if the call was not sent yet, it is not sent."""
        self.calls.pop(call_id, None)

    def send(self, frame: str | bytes) -> None:
        """Send a frame of the application's own."""
        self._outbox.keep(frame)

    # -- frames that arrive ----------------------------------------------------------------------------------------

    def receive(self, text: str | bytes) -> None:
        """Process one frame. What is not a JSON object, or has no known type, goes to `others`."""
        self.frames += 1
        frame = _decoded(text)
        if isinstance(frame, str):
            self.others.append(frame)
        elif self.chat is None or not self.chat.receive(frame):
            self._receive_frame(frame)

    def _receive_frame(self, frame: JsonObject) -> None:
        match frame.get("type"):
            case "cf_agent_identity":
                self.identity = frame
            case "cf_agent_state":
                self.state.replace(frame.get("state"))
            case "cf_agent_state_error":
                self.state.refuse(str(frame.get("error")))
            case "rpc":
                self._answered(str(frame.get("id")), frame)
            case "cf_agent_mcp_servers":
                pass
            case _:
                self.others.append(frame)

    def _answered(self, call_id: str, frame: JsonObject) -> None:
        if self._outbox.confirm(call_id):
            self.state.confirm(call_id)
            return
        call = self.calls.get(call_id)
        if call is not None and not call.is_done:
            call.answer(frame)


def _decoded(text: str | bytes) -> JsonObject | str:
    try:
        frame = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        frame = None
    if isinstance(frame, dict):
        return frame
    return text if isinstance(text, str) else text.decode(errors="replace")
