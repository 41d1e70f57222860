"""The conversation as lists show it: owner, title, preview, status, read positions. A fold of the log like the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ..errors import Rejected
from ..events import (
    ABSENT,
    CallAnswered,
    ChatCleared,
    Chunk,
    ConversationChanged,
    ConversationRead,
    Event,
    Identity,
    JobAdded,
    MessageEnded,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    Outcome,
    Placed,
    TurnAccepted,
    TurnEnded,
    TurnKind,
)
from ..ids import Millis, NodeId
from ..rows import (
    CONVERSATION,
    ConversationStatus,
    ConversationSummary,
    KeptRow,
    Participant,
    decode_listed,
    encode_listed,
)
from .commands import ChangeConversation, MarkRead
from .state import State

__all__ = ["TITLE_JOB", "conversation_row", "decide_conversation", "deletion_due", "evolve_conversation"]
__all__ += ["begins_conversation", "message_text", "own_copy", "restore_conversation", "short_title"]
__all__ += ["summarise_rows"]

TITLE_JOB: Final = "everyword.title"
"""The callback of the job that asks for a title."""

LONGEST_TITLE: Final = 80
LONGEST_PREVIEW: Final = 160
MOST_PARTICIPANTS: Final = 50
MOST_READERS: Final = 200
"""The principals that read a conversation last; of others everything is unread."""


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Text(msgspec.Struct):
    parts: list[_Part] = []


_decoder: msgspec.json.Decoder[_Text] = msgspec.json.Decoder(_Text)


# -- deciding ------------------------------------------------------------------------------------------------------


def decide_conversation(state: State, command: ChangeConversation | MarkRead) -> list[Event]:
    """Return the events that a command about the conversation in lists causes."""
    return mark_read(state, command) if isinstance(command, MarkRead) else change_conversation(state, command)


def change_conversation(state: State, command: ChangeConversation) -> list[Event]:
    """Return the change; nothing if everything is as asked for. A model's title does not replace a person's."""
    known = state.conversation
    if known is None:
        raise Rejected("unable to change the conversation; it has no messages yet")
    title, owner, archived, keep_for = command.title, command.owner, command.archived, command.keep_for
    if title is not UNSET and command.titled_by == "model":
        # It is about messages that were cleared meanwhile.
        is_late = not known.has_asked_title or command.generation not in (None, state.generation)
        title = UNSET if is_late or known.titled_by == "person" else title
    if title is not UNSET and (title, command.titled_by) == (known.title, known.titled_by):
        title = UNSET
    owner = UNSET if owner == known.owner else owner
    archived = UNSET if archived == (known.archived_at is not None) else archived
    keep_for = UNSET if keep_for == known.keep_for else keep_for
    metadata = ABSENT if bytes(command.metadata) == bytes(known.metadata) else command.metadata
    if title is UNSET and owner is UNSET and archived is UNSET and keep_for is UNSET and metadata is ABSENT:
        return []
    return [
        ConversationChanged(
            title=title,
            titled_by=command.titled_by,
            owner=owner,
            archived=archived,
            metadata=metadata,
            keep_for=keep_for,
            by=command.principal,
        )
    ]


def mark_read(state: State, command: MarkRead) -> list[Event]:
    """Return the new read position of a principal; nothing if it has read as much before."""
    known = state.conversation
    if known is None:
        return []
    upto = known.messages if command.messages is None else min(command.messages, known.messages)
    return [ConversationRead(command.principal, upto)] if upto > known.reads.get(command.principal, 0) else []


def own_copy(
    state: State, who: Identity, messages: int, owner_of: Callable[[Identity], str | None] | None
) -> list[ConversationChanged | ConversationRead]:
    """Return what is known of a principal that copied these messages to here: it owns them, and has read them."""
    known = state.conversation
    if known is not None and (known.owner is not None or known.former_owner is not None):
        return []
    owner = owner_of(who) if owner_of is not None else who.id
    before = known.messages if known is not None else 0
    return [ConversationChanged(owner=owner, by=who), ConversationRead(who.id, before + messages)]


def deletion_due(state: State) -> Millis | None:
    """Return when the conversation is to be deleted; None while it is used, and if it is kept."""
    known = state.conversation
    if known is None or known.keep_for is None or known.status == "running":
        return None
    return Millis(known.updated_at + known.keep_for)


# -- events and rows -------------------------------------------------------------------------------------------------


def evolve_conversation(state: State, event: Event, at: Millis) -> bool:
    """Apply an event to the summary; return whether it may have changed."""
    change = _CHANGES.get(type(event))
    if change is None or (isinstance(event, JobAdded) and event.callback != TITLE_JOB):
        return False
    known = state.conversation
    if known is None:
        if not (isinstance(event, MessagesPut) or (isinstance(event, TurnAccepted) and begins_conversation(event))):
            return False
        known = ConversationSummary(created_at=at, updated_at=at)
    changed = change(state, known, event, at)
    state.conversation = replace(changed, status=_status(state, changed))
    return True


def begins_conversation(event: TurnAccepted) -> bool:
    """Return whether a turn belongs to the conversation: streams of the agent's own and dropped questions do not."""
    return not event.kind.is_bare and not event.dropped


def _status(state: State, known: ConversationSummary) -> ConversationStatus:
    if any(each.status == "waiting" for each in state.waiting.values()):
        return "waiting"
    if any(True for _ in state.message_turns()):
        return "running"
    return "failed" if known.is_failed else "idle"


def _accepted(state: State, known: ConversationSummary, event: Any, at: Millis) -> ConversationSummary:
    if not begins_conversation(event):
        return known
    known = _with_messages(known, event.messages, at)
    if event.principal is None or event.kind is not TurnKind.CHAT:
        return known
    known = _with_participant(known, event.principal)
    if known.owner is None and known.former_owner is None:
        known = replace(known, owner=event.principal.id)
    # A principal that asks has seen what came before its question.
    return _with_read(known, event.principal.id, known.messages) if event.messages else known


def _put(state: State, known: ConversationSummary, event: Any, at: Millis) -> ConversationSummary:
    return _with_messages(known, event.messages, at)


def _with_messages(known: ConversationSummary, messages: list[Placed], at: Millis) -> ConversationSummary:
    for placed in messages:
        text = message_text(bytes(placed.message))
        question = known.question
        if not question and placed.role == "user":
            question = short_title(text)
        preview = _preview(bytes(placed.message)) or known.preview
        known = replace(known, messages=known.messages + 1, question=question, preview=preview)
    # A new message brings an archived conversation back: users do not look at archived ones.
    return replace(known, updated_at=at, archived_at=None if messages else known.archived_at)


def _message_ended(state: State, known: ConversationSummary, event: Any, at: Millis) -> ConversationSummary:
    turn = state.open.get(event.turn)
    is_new = turn is not None and turn.accepted.kind is TurnKind.CHAT
    is_longer = turn is not None and turn.accepted.kind.extends
    preview = _preview(bytes(event.message)) or known.preview
    reads = known.reads
    if is_longer:  # a principal that read the message before has not read what was added to it
        reads = {each: min(count, known.messages - 1) for each, count in reads.items()}
    return replace(known, messages=known.messages + is_new, preview=preview, reads=reads, updated_at=at)


def _replaced(state: State, known: ConversationSummary, event: Any, at: Millis) -> ConversationSummary:
    body = bytes(event.message)
    if _is_first_question(state, event.node):  # it may have been replaced because nobody should read it any more
        known = replace(known, question=_cut(message_text(body), LONGEST_TITLE))
    if event.node != state.tree.leaf:
        return known
    return replace(known, preview=_preview(body) or known.preview, updated_at=at)


def _is_first_question(state: State, node: NodeId) -> bool:
    """Return whether no user message with text comes before this node, which is one."""
    questions = (each for each, place in state.tree.nodes.items() if place.role == "user" and place.shown is not None)
    return node == next((each for each in questions if each == node or _has_text(state, each)), None)


def _has_text(state: State, node: NodeId) -> bool:
    return bool(message_text(state.tree.nodes[node].shown or b"").strip())


def _turn_ended(state: State, known: ConversationSummary, event: Any, at: Millis) -> ConversationSummary:
    turn = state.ended.get(event.turn)
    if turn is None or not turn.accepted.kind.is_chat or event.outcome is Outcome.SKIPPED:
        return known
    return replace(known, is_failed=event.outcome is Outcome.ERROR, updated_at=at)


def _answered(state: State, known: ConversationSummary, event: Any, at: Millis) -> ConversationSummary:
    known = replace(known, updated_at=at)
    return _with_participant(known, event.principal) if event.principal is not None else known


def _cleared(state: State, known: ConversationSummary, event: Any, at: Millis) -> ConversationSummary:
    """The title goes with the messages that it is about, unless a person gave it."""
    if known.titled_by == "model":
        known = replace(known, title=None, titled_by=None)
    known = replace(known, question="", has_asked_title=False, cleared=known.messages)
    return replace(known, preview="", is_failed=False, updated_at=at)


def _unchanged(state: State, known: ConversationSummary, event: Any, at: Millis) -> ConversationSummary:
    return known


def _changed(state: State, known: ConversationSummary, event: Any, at: Millis) -> ConversationSummary:
    if event.title is not UNSET:
        given = event.title
        known = replace(known, title=given, titled_by=event.titled_by if given is not None else None)
    if event.owner is not UNSET and event.owner != known.owner:
        known = replace(known, owner=event.owner, former_owner=known.owner)
    if event.archived is not UNSET:
        known = replace(known, archived_at=at if event.archived else None)
    if event.keep_for is not UNSET:
        known = replace(known, keep_for=event.keep_for)
    return replace(known, metadata=event.metadata) if bytes(event.metadata) != bytes(ABSENT) else known


def _read(state: State, known: ConversationSummary, event: Any, at: Millis) -> ConversationSummary:
    return _with_read(known, event.principal, event.messages)


def _job_added(state: State, known: ConversationSummary, event: Any, at: Millis) -> ConversationSummary:
    return replace(known, has_asked_title=True)


def _with_read(known: ConversationSummary, principal: str, messages: int) -> ConversationSummary:
    others = {each: count for each, count in known.reads.items() if each != principal}
    while len(others) >= MOST_READERS:
        del others[next(iter(others))]
    return replace(known, reads={**others, principal: messages})


def _with_participant(known: ConversationSummary, who: Identity) -> ConversationSummary:
    if any(each.id == who.id for each in known.participants) or len(known.participants) >= MOST_PARTICIPANTS:
        return known
    return replace(known, participants=[*known.participants, Participant(who.id, who.name)])


_CHANGES: Final[dict[type, Callable[[State, ConversationSummary, Any, Millis], ConversationSummary]]] = {
    TurnAccepted: _accepted,
    MessagesPut: _put,
    MessageEnded: _message_ended,
    MessageReplaced: _replaced,
    MessagesRemoved: _unchanged,
    TurnEnded: _turn_ended,
    CallAnswered: _answered,
    ChatCleared: _cleared,
    ConversationChanged: _changed,
    ConversationRead: _read,
    JobAdded: _job_added,
    Chunk: _unchanged,  # an approval request: what changes is the status
}


def _texts(body: bytes) -> list[list[str]]:
    """Return the text parts of a message: those before a tool's call, between two of them, and after the last."""
    try:
        parts = _decoder.decode(body).parts
    except msgspec.DecodeError:  # a part of another form, for example a `text` that is no string
        return []
    texts: list[list[str]] = [[]]
    for part in parts:
        if part.type == "text":
            texts[-1].append(part.text)
        elif part.type.startswith(("tool-", "dynamic-tool")):
            texts.append([])
    return texts


def message_text(body: bytes) -> str:
    """Return the text parts of a message."""
    return " ".join(text for texts in _texts(body) for text in texts)


def _preview(body: bytes) -> str:
    """Return the beginning of a message's newest text: an answer that called tools ends with what matters."""
    shown = (_cut(" ".join(texts), LONGEST_PREVIEW) for texts in reversed(_texts(body)))
    return next((text for text in shown if text), "")


def short_title(text: str) -> str:
    """Return the title of a conversation whose first question is this text."""
    return _cut(text, LONGEST_TITLE)


def _cut(text: str, most: int) -> str:
    text = " ".join(text[: most * 8].split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def conversation_row(state: State) -> KeptRow:
    """Return the row of the summary; without a body if the agent has had no messages."""
    body = encode_listed(state.conversation) if state.conversation is not None else None
    return KeptRow(CONVERSATION, "", body)


def restore_conversation(row: KeptRow) -> ConversationSummary:
    """Return the summary of a row.

    Raises:
        msgspec.DecodeError: the row is unreadable.
    """
    return decode_listed(row.body, ConversationSummary)


def summarise_rows(state: State) -> ConversationSummary | None:
    """Return a summary of an agent whose rows have none: it was written by a release that had no summaries."""
    written = [node for node in state.tree.nodes.values() if node.shown is not None]
    if not written:
        return None
    first, last = written[0], written[-1]
    known = ConversationSummary(created_at=first.at, updated_at=last.at, messages=len(written))
    question = next((node.shown for node in written if node.role == "user"), None)
    turns = sorted([*state.ended.values(), *state.open.values()], key=lambda turn: turn.id)
    asked = [turn.accepted.principal for turn in turns if turn.accepted.principal is not None]
    for who in asked:
        known = _with_participant(known, who)
    latest = state.last_ended
    known = replace(
        known,
        owner=asked[0].id if asked else None,
        question=short_title(message_text(question)) if question is not None else "",
        preview=_preview(last.shown or b""),
        is_failed=latest is not None and latest.outcome is Outcome.ERROR,
    )
    return replace(known, status=_status(state, known))
