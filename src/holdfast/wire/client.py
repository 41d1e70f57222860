"""The client's half of the protocol, sans-IO: what the Python client and our own tests are built on.

Give it the text of every frame that arrives, send what `frames_to_send` returns, and read `messages`, `status` and
`endings`. It resumes by itself: call `connected` after every (re)connect and `disconnected` when the socket is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ..messages.fold import MessageFold
from ..messages.message import UIMessage

__all__ = ["ChatProtocol", "Ended"]

JsonObject = dict[str, Any]
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Ended:
    """How a request ended, as this client was told."""

    outcome: str
    error: str | None = None


class _Stream:
    """A message under construction, and the last chunk index that went into it."""

    def __init__(self, base: UIMessage | None) -> None:
        self.fold = MessageFold(base.id if base is not None else "", base=base)
        self.seen = -1


class ChatProtocol:
    """One client of one chat."""

    def __init__(self) -> None:
        self.messages: list[JsonObject] = []
        self.endings: dict[str, Ended] = {}
        self.status: Literal["ready", "submitted", "streaming", "error"] = "ready"
        self.identity: JsonObject | None = None
        self._streams: dict[str, _Stream] = {}
        self._asked: dict[str, JsonObject] = {}
        """Requests of ours that have not ended, with their question."""
        self._probe: str | None = None
        self._probes = 0
        self._outgoing: list[str] = []

    # -- what to send ------------------------------------------------------------------------------------------

    def frames_to_send(self) -> list[str]:
        """Return, once, the frames that are to be sent now."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def connected(self) -> None:
        """Ask whether there is anything to resume."""
        self._probes += 1
        self._probe = f"probe-{self._probes}"
        self._post(type="cf_agent_stream_resume_request", probeId=self._probe)

    def disconnected(self) -> None:
        """The socket is gone: what streamed is drawn anew from the replay."""
        self._streams.clear()

    def ask(self, request: str, messages: list[JsonObject], **body: Any) -> None:
        """Send a question: the whole list, as the stock client does."""
        self.messages = list(messages)
        self.status = "submitted"
        if messages:
            self._asked[request] = messages[-1]
        text = _encode({"messages": messages, "trigger": "submit-message", **body}).decode()
        self._post(type="cf_agent_use_chat_request", id=request, init={"method": "POST", "body": text})

    def stop(self, request: str) -> None:
        self._post(type="cf_agent_chat_request_cancel", id=request)

    def clear(self) -> None:
        self.messages = []
        self._streams.clear()
        self._post(type="cf_agent_chat_clear")

    def answer(self, call: str, output: Any, *, auto_continue: bool = True) -> None:
        """Give a client tool's result."""
        self._post(type="cf_agent_tool_result", toolCallId=call, toolName="", output=output, autoContinue=auto_continue)

    def approve(self, call: str, approved: bool, *, auto_continue: bool = True) -> None:
        self._post(type="cf_agent_tool_approval", toolCallId=call, approved=approved, autoContinue=auto_continue)

    def _post(self, **frame: Any) -> None:
        self._outgoing.append(_encode(frame).decode())

    # -- what arrives --------------------------------------------------------------------------------------------

    def receive(self, text: str) -> None:
        """Take in one frame; frames of unknown types are ignored."""
        frame: JsonObject = msgspec.json.decode(text)
        match frame.get("type"):
            case "cf_agent_use_chat_response":
                self._response(frame)
            case "cf_agent_chat_messages":
                self._transcript(frame["messages"], is_greeting=frame.get("connect", False))
            case "cf_agent_message_updated":
                self._put(frame["message"], only_known=True)
            case "cf_agent_stream_resuming":
                self._post(type="cf_agent_stream_resume_ack", id=frame["id"])
            case "cf_agent_chat_clear":
                self.messages, self.status = [], "ready"
                self._streams.clear()
            case "cf_agent_identity":
                self.identity = frame
            case _:
                pass

    def _response(self, frame: JsonObject) -> None:
        request, body = frame["id"], frame["body"]
        if frame.get("error"):
            self._end(request, Ended("error", body))
        elif frame["done"]:
            self._end(request, Ended(frame.get("outcome", "completed")))
        elif body:
            self._chunk(request, frame, msgspec.json.decode(body))

    def _chunk(self, request: str, frame: JsonObject, chunk: JsonObject) -> None:
        is_continuation = frame.get("continuation", False)
        stream = self._streams.get(request)
        starts_anew = frame.get("replay") and chunk.get("type") == "start" and not is_continuation
        if stream is None or starts_anew:
            base = self._last_assistant() if is_continuation else None
            stream = self._streams[request] = _Stream(base)
        index = frame.get("seq")
        if is_continuation and index is not None:
            if index <= stream.seen:
                return
            stream.seen = index
        stream.fold.apply(chunk)
        message = stream.fold.message()
        if message.id and message.parts:
            self.status = "streaming"
            self._put(message.to_dict())

    def _end(self, request: str, ended: Ended) -> None:
        self._streams.pop(request, None)
        self._asked.pop(request, None)
        self.endings[request] = ended
        self.status = "error" if ended.outcome == "error" else "ready"

    def _transcript(self, messages: list[JsonObject], *, is_greeting: bool) -> None:
        streaming = [stream.fold.message() for stream in self._streams.values()]
        kept = [message.to_dict() for message in streaming if message.id and message.parts]
        if is_greeting:  # rendered before what we asked meanwhile was accepted
            kept = [*self._asked.values(), *kept]
        known = {message["id"] for message in messages}
        self.messages = [*messages, *(message for message in kept if message["id"] not in known)]

    def _put(self, message: JsonObject, *, only_known: bool = False) -> None:
        for place, each in enumerate(self.messages):
            if each["id"] == message["id"]:
                self.messages[place] = message
                return
        if not only_known:
            self.messages.append(message)

    def _last_assistant(self) -> UIMessage | None:
        for message in reversed(self.messages):
            if message["role"] == "assistant":
                return UIMessage.from_dict(message)
        return None
