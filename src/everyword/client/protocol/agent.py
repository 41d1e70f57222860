"""The client's half of what every agent has, sans-IO: identity, state, calls, and frames of the agent's own.

With a `ChatProtocol` inside, it is the whole of a chat's client: frames of the chat are handed on to it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .chat import ChatProtocol
from .unconfirmed_frames import UnconfirmedFrames

__all__ = ["AgentProtocol", "Call"]

JsonObject = dict[str, Any]
_encode = msgspec.json.encode


@dataclass(slots=True)
class Call:
    """One call of a method: what it has streamed, and how it ended."""

    chunks: deque[Any] = field(default_factory=deque)
    result: Any = None
    error: str | None = None
    is_sent: bool = False
    is_done: bool = False
    is_lost: bool = False
    """The connection went away after it was sent: it may have run or not."""


class AgentProtocol:
    """One client of one agent."""

    def __init__(self, chat: ChatProtocol | None = None) -> None:
        self.chat = chat
        self.identity: JsonObject | None = None
        self.state: Any = None
        self.has_state = False
        self.changes = 0
        """How often the state was replaced, by whomever."""
        self.calls: dict[str, Call] = {}
        self.refusals: dict[str, str] = {}
        """State changes, as `set_state` named them, that the server refused, with the reason."""
        self.others: list[JsonObject | str] = []
        """Frames that are of neither the agent's nor the chat's protocol; whoever reads them empties the list."""
        self.frames = 0
        self._stated: dict[str, tuple[bool, Any]] = {}
        self._unheard = UnconfirmedFrames("state")
        self._is_away = False
        self._outgoing: list[str | bytes] = []
        self._unsent: dict[str, str] = {}

    # -- what to send ----------------------------------------------------------------------------------------------

    def frames_to_send(self) -> list[str | bytes]:
        """Return, once, the frames that are to be sent now; calls among them count as sent from here on."""
        if self._is_away:
            return []
        outgoing = [*self._outgoing, *self._unsent.values()]
        for name in self._unsent:
            if name in self.calls:
                self.calls[name].is_sent = True
        self._outgoing, self._unsent = [], {}
        if self.chat is not None:
            outgoing += self.chat.frames_to_send()
        return outgoing

    def connected(self) -> None:
        self._is_away, self.frames = False, 0
        self._outgoing = [*self._unheard.frames(), *self._outgoing]
        if self.chat is not None:
            self.chat.connected()

    def disconnected(self) -> None:
        """The socket is gone: calls that were sent have no answer any more, everything else is kept for the next."""
        self._is_away = True
        for call in self.calls.values():
            if call.is_sent and not call.is_done:
                call.is_done = call.is_lost = True
        if self.chat is not None:
            self.chat.disconnected()

    def set_state(self, state: Any) -> str:
        """Replace the state, here at once and there soon; returns what `is_confirmed` and `refusals` take."""
        change, frames = self._unheard.command(_encode({"type": "cf_agent_state", "state": state}).decode())
        self._stated[change] = (self.has_state, self.state)
        self._replace(state)
        if not self._is_away:
            self._outgoing += frames
        return change

    def is_confirmed(self, change: str) -> bool:
        return self._unheard.is_confirmed(change)

    def call(self, name: str, method: str, args: list[Any]) -> Call:
        """Call a method; `name` is the call's id, and the returned call is filled by what arrives."""
        call = self.calls[name] = Call()
        self._unsent[name] = _encode({"type": "rpc", "id": name, "method": method, "args": args}).decode()
        return call

    def forget(self, name: str) -> None:
        """Stop waiting for a call; if it was not sent yet it never will be."""
        self.calls.pop(name, None)
        self._unsent.pop(name, None)

    def send(self, frame: str | bytes) -> None:
        """Send a frame of the agent's own making."""
        self._outgoing.append(frame)

    # -- what arrives ------------------------------------------------------------------------------------------------

    def receive(self, text: str | bytes) -> None:
        """Take in one frame; what is not JSON, or of no known type, goes to `others`."""
        self.frames += 1
        frame = _decoded(text)
        if isinstance(frame, str):
            self.others.append(frame)
        elif self.chat is None or not self.chat.take(frame):
            self._take(frame)

    def _take(self, frame: JsonObject) -> None:
        match frame.get("type"):
            case "cf_agent_identity":
                self.identity = frame
            case "cf_agent_state":
                self._replace(frame.get("state"))
            case "cf_agent_state_error":
                self._refused(str(frame.get("error")))
            case "rpc":
                self._answered(str(frame.get("id")), frame)
            case "cf_agent_mcp_servers":
                pass
            case _:
                self.others.append(frame)

    def _replace(self, state: Any) -> None:
        self.state, self.has_state = state, True
        self.changes += 1

    def _refused(self, text: str) -> None:
        """The oldest change that is not confirmed was refused: nothing was written, so nothing is shown."""
        change = next(iter(self._stated), None)
        if change is None:
            return
        self.refusals[change] = text
        had_state, before = self._stated.pop(change)
        if not self._stated:
            self._replace(before)
            self.has_state = had_state

    def _answered(self, name: str, frame: JsonObject) -> None:
        if self._unheard.confirm(name):
            self._stated.pop(name, None)
            return
        call = self.calls.get(name)
        if call is None or call.is_done:
            return
        if not frame.get("success"):
            call.error, call.is_done = str(frame.get("error") or "Unknown error occurred"), True
        elif frame.get("done", True):
            call.result, call.is_done = frame.get("result"), True
        else:
            call.chunks.append(frame.get("result"))


def _decoded(text: str | bytes) -> JsonObject | str:
    try:
        frame = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        frame = None
    if isinstance(frame, dict):
        return frame
    return text if isinstance(text, str) else text.decode(errors="replace")
