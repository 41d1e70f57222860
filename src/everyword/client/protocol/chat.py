"""One client of one chat, without a socket.

Pass every frame that arrives to `receive`, send what `frames_to_send` returns, call `connected` after every connect and
`disconnected` when the socket is gone. Read `messages`, `requests` and `running`. Resuming after a reconnect, and
sending again what the server may not have received, happen by themselves.

The way of an answer: `receive` → `_response` → `_chunk` → `AnswerStreams.receive` folds the chunk into a message. When
`messages` is read, `_show` puts the messages that have grown into the `MessageList`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec

from ...messages.message import UIMessage
from ...messages.tool_calls import ApprovalAnswer, tool_parts
from .answer_streams import AnswerStreams
from .message_list import MessageList, answer_to
from .outbox import ClientOutbox
from .requests import Ended, Request, Requests
from .resume_handshake import ClientResumeHandshake

__all__ = ["ChatProtocol", "Ended"]

JsonObject = dict[str, Any]

DELETED: Final = "The conversation was deleted."


@dataclass(slots=True)
class _PendingClear:
    """A clear that the server has not confirmed yet."""

    mark: str
    requests: set[str]
    """Requests of the conversation that is being cleared. Their chunks are not shown any more."""
    transcript: list[JsonObject] | None = None
    """The last transcript since the clear was sent; it is shown once the clear is confirmed."""


class ChatProtocol:
    """The state of one chat as one client knows it, and the frames that the client has to send."""

    def __init__(self) -> None:
        self.has_transcript = False
        """True once the server has sent the conversation."""
        self._requests = Requests()
        self._list = MessageList()
        self._streams = AnswerStreams()
        self.problems = self._streams.problems
        """Why chunks were left out: they did not fit their message."""
        self.resume = ClientResumeHandshake()
        self._clear: _PendingClear | None = None
        self._outbox = ClientOutbox("confirm")

    # -- the connection --------------------------------------------------------------------------------------------

    def connected(self) -> None:
        """Send again what is not confirmed, and ask whether there is a turn to resume."""
        self._outbox.connected()
        self.probe()

    def disconnected(self, *, is_deleted: bool = False) -> None:
        """Drop open streams: the server replays them after the next connect.

        If the conversation was deleted, end every open request: asked again, it would begin a new conversation.
        """
        self._show()
        for request_id in list(self._requests.open) if is_deleted else ():
            self._end(request_id, Ended("error", DELETED))
        self._streams.clear()
        self._outbox.disconnected()
        self.resume.disconnected()
        self._requests.doubt_all()

    def frames_to_send(self) -> list[str]:
        """Return, once, the frames that are to be sent now."""
        return cast(list[str], self._outbox.frames_to_send())  # only frames of `ClientOutbox.keep` may be bytes

    def probe(self) -> str:
        """Ask whether there is a turn to resume; `resume.answers` gets the answer under the id that this returns."""
        probe = self.resume.probe()
        self._outbox.post(type="cf_agent_stream_resume_request", probeId=probe)
        return probe

    # -- commands --------------------------------------------------------------------------------------------------

    def ask(self, request_id: str, messages: list[JsonObject], /, **body: Any) -> None:
        """Send a question: the whole list of messages, as the stock client does."""
        self.messages = list(messages)
        self._requests.ask(request_id, messages[-1] if messages else None)
        text = msgspec.json.encode({"messages": messages, "trigger": "submit-message", **body}).decode()
        init = {"method": "POST", "body": text}
        self._outbox.question(request_id, type="cf_agent_use_chat_request", id=request_id, init=init)

    def stop(self, request_id: str) -> str:
        """Ask the server to stop a turn. Like all commands, returns a mark for `is_confirmed`."""
        return self._outbox.command(type="cf_agent_chat_request_cancel", id=request_id)

    def clear(self) -> str:
        """Clear the conversation. What the server sent before it received this is not shown any more."""
        self.messages = []
        self._streams.clear()
        for request in self._requests.open.values():
            if request.question is not None:
                self._outbox.confirm(request.id)
        mark = self._outbox.command(type="cf_agent_chat_clear")
        self._clear = _PendingClear(mark, set(self._requests.known))
        return mark

    def answer(
        self, call: str, output: Any = None, *, auto_continue: bool = True, error: str | None = None, **more: Any
    ) -> str:
        """Send the result of a client tool, or the text of its failure."""
        result: JsonObject = {"output": output} if error is None else {"state": "output-error", "errorText": error}
        frame = {"toolCallId": call, "toolName": "", **result, "autoContinue": auto_continue, **more}
        return self._outbox.command(type="cf_agent_tool_result", **frame)

    def approve(self, call: str, approved: bool, *, auto_continue: bool = True, reason: str | None = None) -> str:
        """Approve or deny a tool call."""
        more = {} if reason is None else {"reason": reason}
        return self._outbox.command(
            type="cf_agent_tool_approval", toolCallId=call, approved=approved, autoContinue=auto_continue, **more
        )

    def is_confirmed(self, mark: str) -> bool:
        """Tell whether the server has processed a command."""
        return self._outbox.is_confirmed(mark)

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[JsonObject]:
        """The conversation as this client knows it, with the answers that stream."""
        self._show()
        return self._list.messages

    @messages.setter
    def messages(self, messages: list[JsonObject]) -> None:
        self._list.messages = messages

    @property
    def requests(self) -> dict[str, Request]:
        """Every request that this client knows of, by id, the oldest first."""
        self._show()
        return self._requests.known

    @property
    def endings(self) -> dict[str, Ended]:
        """The requests that have ended, and how."""
        return {known.id: known.ending for known in self._requests.known.values() if known.ending is not None}

    @property
    def running(self) -> list[str]:
        """The requests that stream or wait, as far as this client knows; those that stream come first."""
        streaming, pending = self._streams.open, self.resume.pending
        waiting = [each.id for each in self._requests.open.values() if each.question is not None or each.id == pending]
        return [*streaming, *(each for each in waiting if each not in streaming)]

    @property
    def is_streaming(self) -> bool:
        return bool(self._streams.open)

    def find(self, message_id: str) -> JsonObject | None:
        """Return a message of the conversation."""
        self._show()
        return self._list.find(message_id)

    # -- what was read over HTTP -----------------------------------------------------------------------------------

    def adopt(self, history: list[JsonObject]) -> None:
        """Put the stored conversation before the messages of this client; its own version of a message stays."""
        self._show()
        self._list.adopt(history)

    def settle(self, request_id: str, answer: JsonObject | None) -> None:
        """Take the stored answer of a request that `is_unsure`; None if it has none."""
        self._requests.known[request_id].is_unsure = False
        if answer is not None:
            self._requests.name_answer(request_id, answer["id"])
            self._list.put(answer)

    # -- frames that arrive ----------------------------------------------------------------------------------------

    def receive(self, frame: str | JsonObject) -> bool:
        """Process one frame, as text or decoded; return False if it is not a frame of the chat protocol."""
        if isinstance(frame, str):
            frame = cast(JsonObject, msgspec.json.decode(frame))
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
                self._cleared_elsewhere()
            case "rpc":
                return self._confirmed(frame.get("id", ""))
            case "cf_agent_chat_recovering":
                pass
            case _:
                return False
        return True

    # Responses: chunks, and the endings of requests.

    def _response(self, frame: JsonObject) -> None:
        request_id, body = frame["id"], frame["body"]
        if frame["done"]:
            self._name_answer(request_id, frame)
        if frame.get("error") and body:
            self._end(request_id, Ended("error", body))
        elif frame["done"]:
            self._end(request_id, self._ending(request_id, frame))
        elif frame.get("error"):
            self._streams.drop(request_id)
        elif frame.get("replayComplete"):
            self._requests.hear(request_id)
            self._streams.replay_completed(request_id)
        elif body:
            request = self._requests.hear(request_id)
            if self._clear is None or request_id not in self._clear.requests:
                self._chunk(request, frame, msgspec.json.decode(body))

    def _chunk(self, request: Request, frame: JsonObject, chunk: JsonObject) -> None:
        """Add a chunk to the request's stream, which the first chunk opens."""
        is_start, is_continuation = chunk.get("type") == "start", frame.get("continuation", False)
        is_whole = is_start and frame.get("replay", False)  # a replay that starts has the whole message
        is_open = request.id in self._streams.open
        if not is_open and self._clear is not None and not is_start and not is_continuation:
            return  # the rest of an answer that is being cleared
        if not is_open or is_whole:
            base = self._base(request) if is_continuation and not is_whole else None
            self._streams.begin(request.id, base, is_whole=is_whole)
        self._streams.receive(request.id, frame, chunk)

    def _base(self, request: Request) -> UIMessage | None:
        """Return the message that a continuation extends, without chunks of the continuation itself."""
        if not request.has_base:
            self._show()
            request.base, request.has_base = self._list.last_assistant(), True
        return request.base

    def _show(self) -> None:
        """Put the answers that have grown into the list of messages."""
        for request_id, message in self._streams.take_grown():
            self._requests.name_answer(request_id, message.id)
            self._list.put_streamed(message)

    def _ending(self, request_id: str, frame: JsonObject) -> Ended:
        request = self._requests.open.get(request_id)
        is_asked = request is not None and request.question is not None
        if frame.get("replay") and "outcome" not in frame and is_asked:
            return Ended("skipped")  # the conversation does not have this turn: it was cleared, or never accepted
        return Ended(frame.get("outcome", "completed"))

    def _name_answer(self, request_id: str, frame: JsonObject) -> None:
        """Find the answer of a turn that ended before its stream was joined: its transcript came before its end."""
        self._show()
        request = self._requests.known.get(request_id)
        if request is not None and request.answer_id is not None:
            return
        question_id = request.question_id if request is not None else None
        if frame.get("messageIds"):
            question_id = frame["messageIds"][-1]
        answer_id = answer_to(self._list.messages, question_id)
        if question_id is None and frame.get("continuation"):
            last = self._list.messages[-1] if self._list.messages else None
            answer_id = last["id"] if last is not None and last["role"] == "assistant" else None
        if answer_id is not None:
            self._requests.name_answer(request_id, answer_id)

    def _end(self, request_id: str, ending: Ended) -> None:
        self._streams.replay_completed(request_id)
        self._show()
        self._streams.drop(request_id)
        self._requests.end(request_id, ending)
        self._list.drop_unaccepted(self._requests.known[request_id].question_id)
        self._outbox.confirm(request_id)
        self._inquire()

    # Transcripts and changed messages.

    def _transcript(self, messages: list[JsonObject], *, is_greeting: bool) -> None:
        if self._clear is not None:
            self._clear.transcript = messages  # it may be older than the clear, unless no other follows
            return
        self.has_transcript = True
        self._show()
        kept = self._streams.shown_messages()
        if is_greeting:  # it was written before the server accepted what this client has asked since
            asked = [each.question for each in self._requests.open.values() if each.question is not None]
            kept = [*asked, *kept]
        self._list.replace(messages, kept)

    def _updated(self, message: JsonObject) -> None:
        """Replace one message. Its approvals also go into the stream that writes it: no chunk has them (R-2)."""
        self._show()
        for request_id, stream in self._streams.open.items():
            if self._requests.known[request_id].answer_id == message["id"]:
                for call, approval in _approvals(message):
                    stream.fold.answer(call, approval)
        if self._clear is None:
            self._list.put(message, only_known=True)

    # Clearing.

    def _confirmed(self, mark: str) -> bool:
        """Process the answer to a confirming call; return False if it answers another call."""
        if not self._outbox.confirm(mark):
            return False
        if self._clear is not None and mark == self._clear.mark:
            clear, self._clear = self._clear, None
            for request_id in [each for each in self._requests.open if each in clear.requests]:
                self._end(request_id, Ended("aborted"))
            if clear.transcript is not None:
                self._transcript(clear.transcript, is_greeting=True)
        return True

    def _cleared_elsewhere(self) -> None:
        """Another client has cleared the conversation."""
        self.messages = []
        self._streams.clear()
        if self._clear is not None and self._clear.transcript is not None:
            self._clear.transcript = []

    # Resuming.

    def _handshake(self, frame: JsonObject) -> None:
        kind, request_id, probe = frame["type"], frame.get("id"), frame.get("probeId")
        if probe is not None:
            self.resume.answers[probe] = request_id
        if kind == "cf_agent_stream_resuming":
            self._requests.hear(frame["id"])
            self._acknowledge(frame["id"])
            return
        if kind == "cf_agent_stream_pending":
            self.resume.pending = request_id
            if request_id is not None:
                self._requests.hear(request_id)
        elif probe is None:
            self._released()
        self._inquire()

    def _released(self) -> None:
        """End the request that this client waited for: a skipped continuation is reported in no other way."""
        request = self._requests.open.get(self.resume.pending or "")
        self.resume.pending = None
        if request is not None and request.question is None:
            self._end(request.id, Ended("skipped"))

    def _inquire(self) -> None:
        """Ask how the requests ended that were open when the connection was lost, unless another turn streams."""
        if not self._streams.open:
            for request_id in self._requests.take_doubted():
                self._acknowledge(request_id)

    def _acknowledge(self, request_id: str) -> None:
        self._outbox.post(type="cf_agent_stream_resume_ack", id=request_id)


def _approvals(message: JsonObject) -> Iterable[tuple[str, ApprovalAnswer]]:
    for part in tool_parts(UIMessage.from_dict(message)):
        approval = part.get("approval")
        if part.get("state") == "approval-responded" and isinstance(approval, dict):
            yield part["toolCallId"], ApprovalAnswer(bool(approval.get("approved")), approval.get("reason"))
