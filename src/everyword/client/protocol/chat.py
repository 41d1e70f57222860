"""The client's half of the protocol, sans-IO: what the Python client and our own tests are built on.

Give it the text of every frame that arrives, send what `frames_to_send` returns, and read `messages`, `status` and
`endings`. It resumes by itself: call `connected` after every (re)connect and `disconnected` when the socket is gone.
What was said into a dying socket is said again on the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ...errors import FoldError
from ...messages.fold import MessageFold
from ...messages.message import UIMessage
from ...messages.tool_calls import ApprovalAnswer, tool_parts
from .unconfirmed_frames import UnconfirmedFrames

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

    def __init__(self, base: UIMessage | None, *, is_whole: bool = False) -> None:
        self.fold = MessageFold(base.id if base is not None else "", base=base)
        self.seen = -1
        self.is_whole = is_whole
        """Whether it began with a replay of the whole message."""
        self.is_replaying = False
        """Whether what is folded is behind what was shown before: nobody wants to see an answer shrink."""


class ChatProtocol:
    """One client of one chat."""

    def __init__(self) -> None:
        self.endings: dict[str, Ended] = {}
        self.status: Literal["ready", "submitted", "streaming", "error"] = "ready"
        self.identity: JsonObject | None = None
        self.answers: dict[str, str] = {}
        """Request → id of the message that it writes, as soon as that is known."""
        self.unsure: set[str] = set()
        """Requests that ended while this client was away, so that their answer has to be read elsewhere."""
        self.probes: dict[str, str | None] = {}
        """Probe → the request that there is to resume or to wait for, or None."""
        self.has_transcript = False
        self.problems: list[str] = []
        """What arrived and could not be used."""
        self.questions: dict[str, str | None] = {}
        """Request of this client → id of the message that it asks with."""
        self._messages: list[JsonObject] = []
        self._streams: dict[str, _Stream] = {}
        self._bases: dict[str, UIMessage | None] = {}
        """Open continuations → the message that they extend, as it was before."""
        self._unshown: dict[str, None] = {}
        """Requests whose stream has grown since their message was last put among the messages."""
        self._asked: dict[str, JsonObject] = {}
        """Requests of ours that have not ended, with their question."""
        self._awaited: dict[str, None] = {}
        """Requests, oldest first, that are known to be under way: asked, pending or streaming."""
        self._doubted: set[str] = set()
        """Those of them that were not heard of since the connection was lost."""
        self._pending: str | None = None
        self._clearing: str | None = None
        self._cleared: set[str] = set()
        """Requests of the conversation that is being cleared: what still comes of them is not shown."""
        self._held: list[JsonObject] | None = None
        """The last transcript that came while a clear was on its way: the truth once that is confirmed."""
        self._inquired: set[str] = set()
        """What was asked about on this connection."""
        self._unaccepted: set[str] = set()
        """Messages that are shown although the newest transcript does not have them."""
        self._is_away = False
        self._probe: str | None = None
        self._probes = 0
        self._unheard = UnconfirmedFrames("confirm")
        self._outgoing: list[str] = []

    # -- what to send ------------------------------------------------------------------------------------------

    def frames_to_send(self) -> list[str]:
        """Return, once, the frames that are to be sent now."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def connected(self) -> None:
        """Say again what may not have been heard, and ask whether there is anything to resume."""
        self._is_away = False
        self._outgoing = self._unheard.frames()
        self.probe()

    def disconnected(self) -> None:
        """The socket is gone: what streamed is drawn anew from the replay."""
        self._show()
        self._streams.clear()
        self._outgoing.clear()
        self._pending, self._is_away = None, True
        self._inquired.clear()
        self._doubted = set(self._awaited)

    def probe(self) -> str:
        """Ask whether there is anything to resume; the answer is in `probes` under the id that this returns."""
        self._probes += 1
        self._probe = f"probe-{self._probes}"
        self._post(type="cf_agent_stream_resume_request", probeId=self._probe)
        return self._probe

    @property
    def last_probe(self) -> str | None:
        """The newest probe: the only one that is sure to be answered."""
        return self._probe

    def ask(self, request: str, messages: list[JsonObject], /, **body: Any) -> None:
        """Send a question: the whole list, as the stock client does."""
        self.messages = list(messages)
        self.status = "submitted"
        if messages:
            self._asked[request] = messages[-1]
        self.questions[request] = messages[-1]["id"] if messages else None
        self._awaited[request] = None
        text = _encode({"messages": messages, "trigger": "submit-message", **body}).decode()
        frame = {"type": "cf_agent_use_chat_request", "id": request, "init": {"method": "POST", "body": text}}
        self._say(self._unheard.question(request, _encode(frame).decode()))

    def stop(self, request: str) -> str:
        """Ask for a turn to be stopped. Like all commands, returns what `is_confirmed` takes."""
        return self._command(type="cf_agent_chat_request_cancel", id=request)

    def clear(self) -> str:
        """Begin anew: what is still on its way from before is not shown any more."""
        self.messages = []
        self._streams.clear()
        self._cleared |= self._awaited.keys() | self.endings.keys()
        self._held = None
        for request in self._asked:
            self._unheard.confirm(request)
        self._clearing = self._command(type="cf_agent_chat_clear")
        return self._clearing

    def answer(
        self, call: str, output: Any = None, *, auto_continue: bool = True, error: str | None = None, **more: Any
    ) -> str:
        """Give a client tool's result, or the text of its failure."""
        result: JsonObject = {"output": output} if error is None else {"state": "output-error", "errorText": error}
        frame = {"toolCallId": call, "toolName": "", **result, "autoContinue": auto_continue, **more}
        return self._command(type="cf_agent_tool_result", **frame)

    def approve(self, call: str, approved: bool, *, auto_continue: bool = True, reason: str | None = None) -> str:
        more = {} if reason is None else {"reason": reason}
        return self._command(
            type="cf_agent_tool_approval", toolCallId=call, approved=approved, autoContinue=auto_continue, **more
        )

    def is_confirmed(self, command: str) -> bool:
        """Tell whether the server has taken in a command."""
        return self._unheard.is_confirmed(command)

    def _command(self, **frame: Any) -> str:
        mark, frames = self._unheard.command(_encode(frame).decode())
        self._say(frames)
        return mark

    def _say(self, frames: list[str]) -> None:
        if not self._is_away:  # else it is said with everything unconfirmed
            self._outgoing += frames

    def _post(self, **frame: Any) -> None:
        self._outgoing.append(_encode(frame).decode())

    # -- what to read ----------------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[JsonObject]:
        """The conversation as this client knows it, with what streams."""
        self._show()
        return self._messages

    @messages.setter
    def messages(self, messages: list[JsonObject]) -> None:
        self._messages = messages

    @property
    def running(self) -> list[str]:
        """The requests that have not ended as far as this client was told, the oldest first."""
        waiting = [each for each in self._awaited if each in self._asked or each == self._pending]
        return [*self._streams, *(each for each in waiting if each not in self._streams)]

    @property
    def is_streaming(self) -> bool:
        return bool(self._streams)

    def find(self, message_id: str) -> JsonObject | None:
        """Return a message of the conversation; the one that streams is found first."""
        return next((each for each in reversed(self.messages) if each["id"] == message_id), None)

    def adopt(self, history: list[JsonObject]) -> None:
        """Put what was read elsewhere before what this client has: its own messages win."""
        own = {message["id"]: message for message in self.messages}
        known = {message["id"] for message in history}
        older = [own.get(message["id"], message) for message in history]
        self.messages = [*older, *(message for message in self._messages if message["id"] not in known)]

    def settle(self, request: str, answer: JsonObject | None) -> None:
        """Take the answer of a request that is in `unsure`, as it was read elsewhere; None when it has none."""
        self.unsure.discard(request)
        if answer is not None:
            self.answers[request] = answer["id"]
            self._put(answer)

    # -- what arrives --------------------------------------------------------------------------------------------

    def receive(self, text: str) -> None:
        """Take in one frame; frames of unknown types are ignored."""
        self.take(msgspec.json.decode(text))

    def take(self, frame: JsonObject) -> bool:
        """Take in one frame that is already read; False when it is not one of the chat."""
        match frame.get("type"):
            case "cf_agent_use_chat_response":
                self._response(frame)
            case "cf_agent_chat_messages":
                self._transcript(frame["messages"], is_greeting=frame.get("connect", False))
            case "cf_agent_message_updated":
                self._updated(frame["message"])
            case "cf_agent_stream_resuming" | "cf_agent_stream_pending" | "cf_agent_stream_resume_none":
                self._handshake(frame)
            case "cf_agent_chat_clear":
                self.messages, self.status = [], "ready"
                self._streams.clear()
                self._held = None if self._held is None else []  # somebody else cleared what ours will leave
            case "cf_agent_identity":
                self.identity = frame
                return False
            case "rpc":
                return self._confirmed(frame.get("id", ""))
            case "cf_agent_chat_recovering":
                pass
            case _:
                return False
        return True

    def _handshake(self, frame: JsonObject) -> None:
        kind, request, probe = frame["type"], frame.get("id"), frame.get("probeId")
        if probe is not None:
            self.probes[probe] = request
        if kind == "cf_agent_stream_resuming":
            self._heard(frame["id"])
            self._post(type="cf_agent_stream_resume_ack", id=request)
            return
        if kind == "cf_agent_stream_pending":
            self._pending = request
            if request is not None:
                self._heard(request)
        elif probe is None:
            self._released()
        self._inquire()

    def _released(self) -> None:
        """What was waited for never began: continuations that are skipped are told of in no other way."""
        waited, self._pending = self._pending, None
        if waited is not None and waited in self._awaited and waited not in self._asked:
            self._end(waited, Ended("skipped"))

    def _inquire(self) -> None:
        """Ask for the ends of what was under way when the connection was lost, unless another turn streams."""
        if not self._streams:
            for request in sorted(self._doubted - self._inquired):
                self._inquired.add(request)
                self._post(type="cf_agent_stream_resume_ack", id=request)

    def _heard(self, request: str) -> None:
        self._doubted.discard(request)
        if request not in self.endings:
            self._awaited[request] = None

    def _confirmed(self, mark: str) -> bool:
        if not self._unheard.confirm(mark):
            return False
        if mark == self._clearing:
            self._clearing = None
            for request in [request for request in self._awaited if request in self._cleared]:
                self._end(request, Ended("aborted"))
            self._cleared.clear()
            if self._held is not None:
                self._transcript(self._held, is_greeting=True)
            self.status = "submitted" if self._asked else "ready"
        return True

    def _response(self, frame: JsonObject) -> None:
        request, body = frame["id"], frame["body"]
        if frame["done"] and request not in self.answers:
            self._name_answer(request, frame)
        if frame.get("error") and body:
            self._end(request, Ended("error", body))
        elif frame["done"]:
            if frame.get("replay") and "outcome" not in frame and request in self._asked:
                self._disown(request)
            else:
                self._end(request, Ended(frame.get("outcome", "completed")))
        elif frame.get("error"):
            self._streams.pop(request, None)
        elif frame.get("replayComplete"):
            self._heard(request)
            if request in self._streams:
                self._streams[request].is_replaying = False
        elif body:
            self._heard(request)
            if self._clearing is None or request not in self._cleared:
                self._chunk(request, frame, msgspec.json.decode(body))

    def _disown(self, request: str) -> None:
        """A replay without an outcome is of a turn that the conversation does not have: cleared, or dropped."""
        self._end(request, Ended("skipped"))

    def _name_answer(self, request: str, frame: JsonObject) -> None:
        """Find what a turn has said that ended before its stream was joined: the transcript came before its end."""
        self._show()
        if request in self.answers:
            return  # it was heard in the same breath
        asked = (frame.get("messageIds") or [self.questions.get(request)])[-1]
        ids = [message["id"] for message in self._messages]
        place = ids.index(asked) + 1 if asked in ids else len(ids)
        if asked is None and frame.get("continuation"):
            place = len(ids) - 1
        if 0 <= place < len(ids) and self._messages[place]["role"] == "assistant":
            self.answers[request] = ids[place]

    def _chunk(self, request: str, frame: JsonObject, chunk: JsonObject) -> None:
        is_continuation = frame.get("continuation", False)
        stream = self._streams.get(request)
        if stream is None and self._clearing is not None and chunk.get("type") != "start" and not is_continuation:
            return  # the rest of what is being cleared
        starts_anew = frame.get("replay", False) and chunk.get("type") == "start"  # and comes with the whole message
        if stream is None or starts_anew:
            base = self._continued(request) if is_continuation and not starts_anew else None
            stream = self._streams[request] = _Stream(base, is_whole=starts_anew)
        stream.is_replaying = frame.get("replay", False) and (stream.is_whole or not is_continuation)
        index = frame.get("seq")
        if is_continuation and index is not None:
            if index <= stream.seen:
                return
            stream.seen = index
        try:
            stream.fold.apply(chunk)
        except FoldError as error:
            self.problems.append(str(error))
        self._unshown[request] = None
        self.status = "streaming"

    def _show(self) -> None:
        """Put what has streamed among the messages."""
        if not self._unshown:
            return
        for request in list(self._unshown):
            stream = self._streams.get(request)
            if stream is not None and stream.is_replaying:
                continue
            self._unshown.pop(request, None)
            message = stream.fold.message() if stream is not None else None
            if message is not None and message.id and message.parts:
                self.answers[request] = message.id
                if not any(each["id"] == message.id and _is_ahead(each, message) for each in self._messages):
                    self._put(message.to_dict())

    def _end(self, request: str, ended: Ended) -> None:
        if request in self._streams:
            self._streams[request].is_replaying = False
            self._show()
            del self._streams[request]
        if request in self._doubted and ended.outcome != "skipped":
            self.unsure.add(request)
        question = self.questions.get(request)
        if question in self._unaccepted:  # it ended, and the conversation does not have it
            self.messages = [message for message in self.messages if message["id"] != question]
        self._asked.pop(request, None)
        self._bases.pop(request, None)
        self._awaited.pop(request, None)
        self._doubted.discard(request)
        self._unheard.confirm(request)
        if request not in self.endings:  # what is replayed ends again
            self.endings[request] = ended
            self.status = "error" if ended.outcome == "error" else "ready"
        self._inquire()

    def _transcript(self, messages: list[JsonObject], *, is_greeting: bool) -> None:
        if self._clearing is not None:
            self._held = messages  # written before the clear was heard, unless none follows
            return
        self.has_transcript = True
        self._show()
        streaming = [stream.fold.message() for stream in self._streams.values() if not stream.is_replaying]
        kept = [message.to_dict() for message in streaming if message.id and message.parts]
        if is_greeting:  # rendered before what we asked meanwhile was accepted
            kept = [*self._asked.values(), *kept]
        known = {message["id"] for message in messages}
        self._unaccepted = {message["id"] for message in kept} - known
        self.messages = [*messages, *(message for message in kept if message["id"] not in known)]

    def _updated(self, message: JsonObject) -> None:
        """One message has changed; an answer that stands in no chunk goes into what streams as well."""
        self._show()
        for request, stream in self._streams.items():
            if self.answers.get(request) == message["id"]:
                for call, approval in _approvals(message):
                    stream.fold.answer(call, approval)
        if self._clearing is None:
            self._put(message, only_known=True)

    def _put(self, message: JsonObject, *, only_known: bool = False) -> None:
        for place, each in enumerate(self._messages):
            if each["id"] == message["id"]:
                self._messages[place] = message
                return
        if not only_known:
            self._messages.append(message)

    def _continued(self, request: str) -> UIMessage | None:
        """Return the message that a continuation extends, without anything of the continuation: replays begin there."""
        if request not in self._bases:
            self._bases[request] = self._last_assistant()
        return self._bases[request]

    def _last_assistant(self) -> UIMessage | None:
        for message in reversed(self.messages):
            if message["role"] == "assistant":
                return UIMessage.from_dict(message)
        return None


def _is_ahead(shown: JsonObject, message: UIMessage) -> bool:
    """Tell whether what is shown has all that has streamed, and more: transcripts may be ahead of the chunks."""
    text = UIMessage.from_dict(shown).text
    return len(shown["parts"]) >= len(message.parts) and len(text) > len(message.text) and text.startswith(message.text)


def _approvals(message: JsonObject) -> Iterable[tuple[str, ApprovalAnswer]]:
    for part in tool_parts(UIMessage.from_dict(message)):
        approval = part.get("approval")
        if part.get("state") == "approval-responded" and isinstance(approval, dict):
            yield part["toolCallId"], ApprovalAnswer(bool(approval.get("approved")), approval.get("reason"))
