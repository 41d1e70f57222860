"""Erase a principal from a log: each event is rewritten to one without the principal's words and name.

This is the one exception to "events never change", besides deleting an agent. `Eraser` goes through a log in order. It
keeps what it learns (which turns, messages, calls and jobs are the principal's) and returns each event as it is to be.
Rows are not rewritten: they are computed again from the rewritten log, so a rebuild changes nothing.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, assert_never

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from ..events import (
    ABSENT,
    AgentCreated,
    AgentDestroyed,
    AnswerKind,
    ApprovalRequested,
    AttemptDelayed,
    AttemptInterrupted,
    AttemptStarted,
    CallAnswered,
    CallStarted,
    CancelRequested,
    ChatCleared,
    Chunk,
    ConversationChanged,
    ConversationRead,
    Event,
    FiberEnded,
    FiberPaused,
    FiberStarted,
    FiberStashed,
    HookDone,
    Identity,
    JobAdded,
    JobEnded,
    JobStarted,
    LeafMoved,
    MessageEnded,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    Placed,
    RunEnded,
    RunStarted,
    RunTold,
    ShareCreated,
    ShareRevoked,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    TurnRetargeted,
    to_raw,
)
from ..ids import CallId, FiberId, JobId, MessageId, NodeId, RequestId, RunId, TurnId
from ..messages.server_fields import SERVER_FIELDS, fields_of

__all__ = ["ERASED_TEXT", "FORKED", "Answered", "Eraser", "Target", "are_words_of", "copied_answers"]

ERASED_TEXT: Final = "This message was deleted."
"""The text of a message whose author was erased, and the value of what the author gave to a tool."""

FRAMEWORK: Final = "everyword."
"""The prefix of callbacks of the framework's own jobs: notifications, and requests for titles."""

FORKED: Final = "forked"
"""The cause of messages that were copied from another conversation."""

FILL_STREAM: Final = "_rsm_generate_response"
"""The callback of the jobs that fill the streams of a `ResumableStreamManager`."""

_TEXTS: Final = frozenset({"title", "preview", "summary"})
"""Fields of a notification that may quote the principal."""

_RESULT_CHUNK: Final = b'{"type":"tool-output-'
"""The beginning of a chunk with the result of a tool."""

_RESULT_FIELDS: Final = ("output", "errorText")

_TRIGGERS: Final = frozenset({"submit-message", "regenerate-message"})

E = TypeVar("E", bound=Event)

Answered = tuple[MessageId, CallId, AnswerKind]
"""A call of a message, and what it was answered with."""


@dataclass(frozen=True, slots=True)
class Target:
    """The principal to erase, and what takes its place."""

    principal: str
    """Its id."""
    alias: str
    """The id that it has in the log afterwards."""
    salt: bytes
    """The key from which new ids are computed. It is deleted afterwards, so that old and new ids cannot be compared."""
    with_answers: bool = False
    """Whether the answers to its questions are deleted, too."""
    answered: frozenset[Answered] = frozenset()
    """Calls that it answered in a conversation of which this one has a copy: a fork has no event that says so."""

    def opaque(self, given: str) -> str:
        """Return the id that takes the place of one that a client chose; the same for the same id."""
        return f"erased-{hashlib.blake2b(given.encode(), key=self.salt[:64], digest_size=12).hexdigest()}"


def copied_answers(event: MessagesPut, answered: Collection[Answered]) -> set[Answered]:
    """Return those of the answered calls that messages have which were copied from another conversation."""
    if event.cause != FORKED:
        return set()
    messages = {each.id for each in event.messages}
    return {each for each in answered if each[0] in messages}


def are_words_of(target: Target, message: Any, role: str = "", *, is_ours: bool = False) -> bool:
    """Tell whether the principal wrote a message, by the server's own fields.

    A question without an author belongs to the principal of its turn.
    """
    author = _author_of(message)
    return author == target.principal or (is_ours and author is None and role == "user")


@dataclass(slots=True)
class Eraser:
    """Rewrites one log, from its first event on. `counts` says what was replaced."""

    target: Target
    counts: Counter[str] = field(default_factory=Counter)
    open_turns: dict[TurnId, RequestId] = field(default_factory=dict)
    """Turns of the principal that have not ended."""
    turns: set[TurnId] = field(default_factory=set)
    """All turns of the principal."""
    jobs: set[JobId] = field(default_factory=set)
    fibers: set[FiberId] = field(default_factory=set)
    answered: set[Answered] = field(default_factory=set)
    """Calls of which the principal's answer is in the message: copies of it have it, too."""
    _message_ids: dict[NodeId, MessageId] = field(default_factory=dict)
    _copied_calls: dict[MessageId, set[tuple[CallId, AnswerKind]]] = field(default_factory=dict)
    """The same for messages that were copied to here."""
    _runs: set[RunId] = field(default_factory=set)
    _nodes: set[NodeId] = field(default_factory=set)
    """Places of messages that the principal put there: their ids were its client's."""
    _answer_nodes: set[NodeId] = field(default_factory=set)
    """Places of the answers to it."""
    _ids: set[MessageId] = field(default_factory=set)
    _streams: dict[str, TurnAccepted] = field(default_factory=dict)
    """Streams of a `ResumableStreamManager`, by id: the job that fills one tells whose it is."""
    _answers: set[MessageId] = field(default_factory=set)
    """Ids of the answers from these streams."""
    _results: set[CallId] = field(default_factory=set)
    """Calls of which the principal gave the result."""
    _reasons: set[CallId] = field(default_factory=set)
    """Calls that the principal approved or denied with a reason. Their results are those of the agent's tools."""
    _bodies: dict[bytes, bool] = field(default_factory=dict)
    """Bodies of requests, by hash; True for those that only the principal's had."""
    _requests: set[str] = field(default_factory=set)
    """Request ids of the principal's clients."""
    _titles: set[str] = field(default_factory=set)
    """Titles that the principal gave to the conversation. A notification of another's turn may have one."""
    _owners: set[str] = field(default_factory=set)
    """Client names (`_pk`) of other principals."""

    def __post_init__(self) -> None:
        for message, call, kind in self.target.answered:
            self._copied_calls.setdefault(message, set()).add((call, kind))

    def rewrite(self, event: Event) -> Event | None:
        """Return the event as it is to be, the same object if nothing changes; None to delete it."""
        match event:
            case TurnAccepted():
                return self._accepted(event)
            case TurnRetargeted():
                known = event.owner is None or event.owner in self._owners
                return event if known else replace(event, owner=None, origin=None)
            case Chunk():
                return self._chunk(event)
            case CallAnswered():
                return self._answered(event)
            case ApprovalRequested():
                return self._requested(event)
            case ConversationChanged():
                return self._changed(event)
            case ConversationRead():
                return self._counted("read positions", event, principal=self._id(event.principal))
            case MessageEnded():
                return self._ended_message(event)
            case CancelRequested():
                return event if event.by is None else self._counted("stops", event, by=self._id(event.by))
            case TurnEnded():
                return self._ended(event)
            case MessagesPut():
                placed = self._placed(event.messages)
                return event if placed is event.messages else replace(event, messages=placed)
            case MessageReplaced():
                message = self._message(event.message, event.node)
                return event if message is event.message else replace(event, message=message)
            case ShareCreated():
                is_ours = self._is(event.principal)
                label = None if is_ours else event.label
                return self._counted("shared links", event, label=label, principal=self._who(event.principal))
            case ShareRevoked():
                return self._counted("shared links", event, principal=self._who(event.principal))
            case JobAdded():
                return self._added(event)
            case JobEnded():
                return event if event.job not in self.jobs else self._counted("jobs", event, detail=None)
            case FiberStarted():
                return self._fiber(event)
            case FiberStashed():
                return event if event.fiber not in self.fibers else self._counted("fibers", event, snapshot=ABSENT)
            case FiberEnded():
                return event if event.fiber not in self.fibers else self._counted("fibers", event, detail=None)
            case RunStarted():
                return self._run(event)
            case RunEnded():
                return self._ended_run(event)
            case AttemptStarted() | AttemptDelayed() | AttemptInterrupted() | CallStarted() | HookDone():
                return event  # a turn, numbers, the name of a tool
            case MessagesRemoved() | LeafMoved() | ChatCleared():
                return event  # places in the tree
            case JobStarted() | FiberPaused() | RunTold() | AgentCreated() | AgentDestroyed():
                return event
            case StateSet():
                return self._state(event)
            case _:
                assert_never(event)

    # -- turns -------------------------------------------------------------------------------------------------------

    def _accepted(self, event: TurnAccepted) -> TurnAccepted:
        self._message_ids[event.node] = event.message_id
        if event.kind is TurnKind.RSM:
            self._streams[event.request] = event
        is_ours = self._is(event.principal)
        if is_ours:
            self.turns.add(event.turn)
            self.open_turns[event.turn] = event.request
            if not event.kind.is_bare:
                self._answer_nodes.add(event.node)
            if not event.trusted:
                self._requests.add(event.request)
        elif event.owner is not None and not event.kind.extends:
            self._owners.add(event.owner)
        elif event.owner is not None and event.owner not in self._owners:  # perhaps the principal's: it answered a call
            event = self._counted("turns", event, owner=None, origin=None, client_tools=ABSENT)
        event = self._without_copied_body(event, is_ours=is_ours)
        placed = self._placed(event.messages, is_ours=is_ours)
        ours = self._ids
        if is_ours and event.dropped:  # its messages were not stored
            ours = ours | (set(event.message_ids) - set(self._message_ids.values()))
        ids = [MessageId(self.target.opaque(each)) if each in ours else each for each in event.message_ids]
        if not is_ours:
            is_same = placed is event.messages and ids == event.message_ids
            return event if is_same else replace(event, messages=placed, message_ids=ids)
        return self._counted(
            "turns",
            event,
            # Ids that the agent's own code made are names of runs, and stay.
            request=event.request if event.trusted else RequestId(self.target.opaque(event.request)),
            messages=placed,
            message_ids=ids,
            trigger=event.trigger if event.trigger in _TRIGGERS else "submit-message",
            origin=None,
            owner=None,
            body=ABSENT,
            client_tools=ABSENT,
            principal=Identity(self.target.alias),
            trace=None,
        )

    def _without_copied_body(self, event: TurnAccepted, *, is_ours: bool) -> TurnAccepted:
        """Return the turn; a continuation of another's answer without the body of the principal's turn before it."""
        if bytes(event.body) == bytes(ABSENT):
            return event
        body = hashlib.blake2b(event.body, digest_size=16).digest()
        if is_ours or not event.kind.extends:
            self._bodies[body] = is_ours and self._bodies.get(body, True)
            return event
        return self._counted("turns", event, body=ABSENT) if self._bodies.get(body, False) else event

    def _ended(self, event: TurnEnded) -> TurnEnded:
        self.open_turns.pop(event.turn, None)
        if event.turn not in self.turns:
            return event
        if event.detail is None and not (self.target.with_answers and event.error is not None):
            return event
        error = ERASED_TEXT if self.target.with_answers and event.error is not None else event.error
        return self._counted("error texts", event, detail=None, error=error)

    def _chunk(self, event: Chunk) -> Chunk | None:
        """Return a chunk without a tool result that the principal gave; None to delete the chunk."""
        if self._drops_answer(event.turn):
            return None
        if not self._results or not bytes(event.body).startswith(_RESULT_CHUNK):
            return event
        chunk = msgspec.json.decode(event.body)
        if _call_of(chunk) not in self._results:
            return event
        kept = {name: ERASED_TEXT if name in _RESULT_FIELDS else value for name, value in chunk.items()}
        return replace(event, body=to_raw(kept)) if kept != chunk else event

    def _drops_answer(self, turn: TurnId) -> bool:
        return self.target.with_answers and turn in self.turns

    def _ended_message(self, event: MessageEnded) -> MessageEnded:
        if self._drops_answer(event.turn):
            self.counts["answers"] += 1
            return replace(event, message=_marker(msgspec.json.decode(event.message)))
        message = self._message(event.message, event.node)
        return event if message is event.message else replace(event, message=message)

    # -- messages ----------------------------------------------------------------------------------------------------

    def _placed(self, messages: list[Placed], *, is_ours: bool = False) -> list[Placed]:
        """Return messages that are placed in the tree; the same list if nothing changes."""
        rewritten = [self._place(each, is_ours=is_ours) for each in messages]
        return messages if all(one is other for one, other in zip(rewritten, messages, strict=True)) else rewritten

    def _place(self, placed: Placed, *, is_ours: bool) -> Placed:
        message = msgspec.json.decode(placed.message)
        self._message_ids[placed.node] = placed.id
        for call, kind in self._copied_calls.get(placed.id, ()):
            self._note_answer(call, kind)
        if are_words_of(self.target, message, placed.role, is_ours=is_ours):
            self._nodes.add(placed.node)
            self._ids.add(placed.id)
            self.counts["messages"] += 1
            id = MessageId(self.target.opaque(placed.id))
            return replace(placed, id=id, message=_marker(message, id=id, author=self.target.alias))
        is_answer = placed.role == "assistant" and placed.parent in self._nodes  # in a fork, no turn says so
        if self.target.with_answers and (is_answer or placed.id in self._answers):
            self._answer_nodes.add(placed.node)
            self.counts["answers"] += 1
            return replace(placed, message=_marker(message))
        message_now = self._message(placed.message, placed.node)
        return placed if message_now is placed.message else replace(placed, message=message_now)

    def _message(self, body: Raw, node: NodeId) -> Raw:
        """Return a message at a place that exists; the same object if nothing changes."""
        message = msgspec.json.decode(body)
        id = self.target.opaque(message["id"]) if node in self._nodes else message["id"]
        if _author_of(message) == self.target.principal:
            self.counts["messages"] += 1
            return _marker(message, id=id, author=self.target.alias)
        if self.target.with_answers and node in self._answer_nodes:
            self.counts["answers"] += 1
            return _marker({**message, "id": id})
        parts = message.get("parts")
        kept = self._parts(parts) if isinstance(parts, list) else parts
        return body if kept is parts and id == message["id"] else to_raw({**message, "id": id, "parts": kept})

    def _parts(self, parts: list[Any]) -> list[Any]:
        """Return the parts without what the principal gave to tools; the same list if nothing changes."""
        answered = self._results | self._reasons
        if not any(_call_of(part) in answered for part in parts):
            return parts
        return [self._part(part) if _call_of(part) in answered else part for part in parts]

    def _part(self, part: dict[str, Any]) -> dict[str, Any]:
        kept, call = dict(part), _call_of(part)
        if call in self._results:
            kept |= {name: ERASED_TEXT for name in _RESULT_FIELDS if name in kept}
        if call in self._reasons and isinstance(kept.get("approval"), dict):
            kept["approval"] = {name: value for name, value in kept["approval"].items() if name != "reason"}
        return kept

    def _answered(self, event: CallAnswered) -> CallAnswered:
        is_ours = self._is(event.principal) or (event.principal is None and event.by == self.target.principal)
        if not is_ours:
            return event
        value: Any = ERASED_TEXT
        if event.kind == "approval":
            value = {"approved": msgspec.json.decode(event.value).get("approved")}
        if event.kind != "approval" or msgspec.json.decode(event.value).get("reason") is not None:
            self._note_answer(event.call, event.kind)
            if (message := self._message_ids.get(event.node)) is not None:
                self.answered.add((message, event.call, event.kind))
        who = Identity(self.target.alias) if event.principal is not None else None
        by = self._id(event.by) if event.by is not None else None
        return self._counted("answers to calls", event, value=to_raw(value), by=by, origin=None, principal=who)

    def _note_answer(self, call: CallId, kind: AnswerKind) -> None:
        (self._reasons if kind == "approval" else self._results).add(call)

    def _requested(self, event: ApprovalRequested) -> ApprovalRequested:
        approvers = [self._id(each) for each in event.approvers]
        summary = None if self._drops_answer(event.turn) or self._is(event.asked_by) else event.summary
        about: dict[str, Any] = {"approvers": approvers, "summary": summary, "asked_by": self._who(event.asked_by)}
        return self._counted("requests for approvals", event, **about)

    def _state(self, event: StateSet) -> StateSet:
        """Return a state without the principal's messages, which a `ResumableStreamManager` copies into it.

        What else is in a state, only the agent's own code knows: `on_erase`.
        """
        if not (self._ids or self._answers) or b'"messages"' not in bytes(event.state):
            return event
        state = msgspec.json.decode(event.state)
        messages = state.get("messages") if isinstance(state, dict) else None
        if not isinstance(messages, list):
            return event
        kept = [self._copied(each) for each in messages]
        return self._counted("states", event, state=to_raw({**state, "messages": kept})) if kept != messages else event

    def _copied(self, message: Any) -> Any:
        """Return a message in a state, without its content if it is the principal's."""
        id = message.get("id") if isinstance(message, dict) else None
        if not isinstance(id, str) or not isinstance(message.get("content"), str):
            return message
        if id not in self._ids and not (self.target.with_answers and id in self._answers):
            return message
        return {**message, "id": self.target.opaque(id) if id in self._ids else id, "content": ERASED_TEXT}

    # -- the conversation in lists -----------------------------------------------------------------------------------

    def _changed(self, event: ConversationChanged) -> ConversationChanged:
        owner = self._id(event.owner) if isinstance(event.owner, str) else event.owner
        is_ours = self._is(event.by)
        if is_ours and isinstance(event.title, str):
            self._titles.add(event.title)
        is_title_of_answers = self.target.with_answers and event.titled_by == "model" and bool(self.turns)
        return self._counted(
            "changes of the conversation",
            event,
            owner=owner,
            title=UNSET if is_ours or is_title_of_answers else event.title,
            metadata=ABSENT if is_ours else event.metadata,
            by=Identity(self.target.alias) if is_ours else event.by,
        )

    # -- jobs, fibers and runs ---------------------------------------------------------------------------------------

    def _added(self, event: JobAdded) -> JobAdded:
        if event.callback.startswith(FRAMEWORK):
            payload = msgspec.json.decode(event.payload)
            if self._is_about_us(payload):
                return self._counted("notifications", event, payload=to_raw(self._notice(payload)))
        if not self._is(event.principal):
            return event
        self.jobs.add(event.job)
        if event.callback == FILL_STREAM and (stream := self._stream_of(event)) is not None:
            self.turns.add(stream.turn)
            self.open_turns[stream.turn] = stream.request
            self._answers.add(stream.message_id)
        key = self.target.opaque(event.key) if event.key is not None and not event.is_declared else event.key
        return self._counted("jobs", event, payload=ABSENT, key=key, principal=Identity(self.target.alias))

    def _stream_of(self, event: JobAdded) -> TurnAccepted | None:
        payload = msgspec.json.decode(event.payload)
        return self._streams.get(str(payload.get("streamId"))) if isinstance(payload, dict) else None

    def _is_about_us(self, value: Any) -> bool:
        """Tell whether the payload of a framework's job, a notification, names the principal, or has words of it."""
        if isinstance(value, dict):
            return any(map(self._is_about_us, value.values()))
        if isinstance(value, list):
            return any(map(self._is_about_us, value))
        return isinstance(value, str) and (
            value == self.target.principal or value in self._requests or value in self._titles
        )

    def _notice(self, value: Any) -> Any:
        """Return a notification without texts and without the principal. It can still be delivered."""
        if isinstance(value, list):
            return [self._notice(each) for each in value]
        if isinstance(value, dict):
            if value.get("id") == self.target.principal:
                return {**value, "id": self.target.alias, "name": None}
            return {name: None if name in _TEXTS else self._notice(each) for name, each in value.items()}
        if not isinstance(value, str):
            return value
        return self.target.opaque(value) if value in self._requests else self._id(value)

    def _fiber(self, event: FiberStarted) -> FiberStarted:
        if not self._is(event.principal):
            return event
        self.fibers.add(event.fiber)
        return self._counted("fibers", event, principal=Identity(self.target.alias))

    def _run(self, event: RunStarted) -> RunStarted:
        if not self._is(event.principal):
            return event
        self._runs.add(event.run)
        who = Identity(self.target.alias)
        kept = {"input": ABSENT, "preview": None, "display": ABSENT, "principal": who, "trace": None}
        return self._counted("runs of sub-agents", event, **kept)

    def _ended_run(self, event: RunEnded) -> RunEnded:
        if event.run not in self._runs or not self.target.with_answers:
            return event
        return self._counted("runs of sub-agents", event, summary=None, output=ABSENT, error=None)

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _is(self, who: Identity | None) -> bool:
        return who is not None and who.id == self.target.principal

    def _who(self, given: Identity | None) -> Identity | None:
        return Identity(self.target.alias) if self._is(given) else given

    def _id(self, given: str) -> str:
        return self.target.alias if given == self.target.principal else given

    def _counted(self, noun: str, event: E, **changes: Any) -> E:
        """Return the event with the changes, and count it if there are any."""
        if all(_is_same(getattr(event, name), value) for name, value in changes.items()):
            return event
        self.counts[noun] += 1
        return replace(event, **changes)


def _is_same(one: object, other: object) -> bool:
    return bytes(one) == bytes(other) if isinstance(one, Raw) and isinstance(other, Raw) else one == other


def _call_of(given: Any) -> str | None:
    """Return the call that a part or a chunk is about. A client may have sent anything."""
    call = given.get("toolCallId") if isinstance(given, dict) else None
    return call if isinstance(call, str) else None


def _author_of(message: Any) -> str | None:
    fields = fields_of(message) if isinstance(message, dict) else None
    author = fields.get("author") if fields is not None else None
    return author.get("id") if isinstance(author, dict) else None


def _marker(message: dict[str, Any], *, id: str | None = None, author: str | None = None) -> Raw:
    """Return the message that takes the place of one: its place, its time, and nothing that was said."""
    fields = {name: value for name, value in (fields_of(message) or {}).items() if name == "time"}
    fields |= {"author": {"id": author}} if author is not None else {}
    return to_raw(
        {
            "id": message["id"] if id is None else id,
            "role": message["role"],
            "parts": [{"type": "text", "text": ERASED_TEXT}],
            "metadata": {SERVER_FIELDS: {**fields, "erased": True}},
        }
    )
