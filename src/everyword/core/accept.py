"""Accept turns: which messages are stored, where the answer goes, what happens to turns that wait.

Message ids decide, never the trigger (R-4). No message is deleted: a shorter or changed list becomes a branch of the
tree, and the old branch can be shown again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, assert_never

import msgspec

from ..errors import MessageRefused, Rejected, TooManyQueued
from ..events import (
    Event,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    Outcome,
    Placed,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    to_raw,
)
from ..ids import MessageId, Millis, NodeId, TurnId
from ..messages.client_copies import with_plain_urls
from ..messages.message import is_part
from ..messages.server_fields import fields_of, with_fields, without_fields
from .client_lists import changes_of, check_questions
from .commands import ContinueTurn, OpenStream, PlaceMessages, PutMessages, Submit
from .continuations import principal_of_answer
from .conversations import own_copy
from .sanitize import sanitized
from .stamps import Stamp, stamped_change
from .state import Rules, State
from .transitions import TurnStatus
from .tree import Node
from .turn_state import TurnState
from .waiting_approvals import copied_requests

__all__ = ["accept_continuation", "accept_stream", "accept_submit", "is_steered", "place_deferred", "put_messages"]

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where a turn goes in the tree: below `parent`, after the new messages `placed`."""

    parent: NodeId | None
    placed: list[Placed]

    @property
    def answer_parent(self) -> NodeId | None:
        return self.placed[-1].node if self.placed else self.parent


def accept_submit(state: State, command: Submit, now: Millis, rules: Rules) -> list[Event]:
    """Return the events of a submit; none for a known request id (I-6)."""
    if command.known or command.request in state.requests:
        return []
    _refuse_when_full(state, rules)
    if not command.trusted:
        check_questions(_new_messages(command.messages or (), state.tree.known_ids(), trusted=False))
    before, superseded, merged = _apply_policy(state, command)
    if command.policy.name == "drop" and superseded is None:
        return _drop(state, command)
    messages = command.messages or ()
    continued = _continued_answer(state, command)
    if continued is not None:
        return [*before, _continuation(state, command, continued)]
    stamp = Stamp(now, command.principal, believes="answers" if command.trusted else "nothing")
    changed = _changed(state, messages, rules) if command.trusted else []
    edits = _replacements(state, changed, rules, origin=command.origin)
    plan = _plan(state, messages, stamp, trusted=command.trusted, rules=rules)
    if merged:
        plan, removal = _merge(state, plan, merged)
        before = [*before, removal]
    node = NodeId(_next_node(state, plan.placed))
    accepted = TurnAccepted(
        turn=TurnId(state.last_turn + 1),
        request=command.request,
        kind=TurnKind.CHAT,
        generation=state.generation,
        node=node,
        parent=plan.answer_parent,
        message_id=command.message_id,
        messages=plan.placed,
        message_ids=_trailing_user_ids(messages),
        trigger=command.trigger,
        origin=command.origin,
        owner=command.owner,
        body=command.body,
        client_tools=command.client_tools,
        not_before=_debounced(command, now),
        deferred=command.messages is None,
        trusted=command.trusted,
        trace=command.trace,
        principal=command.principal,
    )
    return [*before, *edits, accepted]


def accept_continuation(state: State, command: ContinueTurn, rules: Rules) -> list[Event]:
    """Return the events of a request to continue the last assistant message."""
    if command.known or command.request in state.requests:
        return []
    _refuse_when_full(state, rules)
    path = state.tree.shown_path()
    if not path or path[-1][1].role != "assistant":
        raise Rejected("unable to continue; the last message is not an assistant message")
    return [_continuation(state, command, path[-1][0])]


def _continuation(state: State, command: Submit | ContinueTurn, node: NodeId) -> TurnAccepted:
    place = state.tree.nodes[node]
    return TurnAccepted(
        turn=TurnId(state.last_turn + 1),
        request=command.request,
        kind=TurnKind.CONTINUATION,
        generation=state.generation,
        node=node,
        parent=place.parent,
        message_id=place.id,
        origin=command.origin,
        owner=command.owner,
        body=command.body,
        client_tools=command.client_tools,
        principal=principal_of_answer(state, node) or command.principal,
    )


def _continued_answer(state: State, command: Submit) -> NodeId | None:
    """Return the node of the answer that a client continues by sending the conversation up to that answer.

    The AI SDK extends that message on the client, so a new message would show its parts twice.
    """
    path = state.tree.shown_path()
    if command.trusted or not command.messages or not path:
        return None
    last, (node, place) = command.messages[-1], path[-1]
    is_whole = place.body is not None and all(turn.node != node for turn in state.message_turns())
    return node if is_whole and last["role"] == place.role == "assistant" and last["id"] == place.id else None


def accept_stream(state: State, command: OpenStream) -> list[Event]:
    """Return the events of opening a bare stream; none for a known request id."""
    if command.request in state.requests:
        return []
    return [
        TurnAccepted(
            turn=TurnId(state.last_turn + 1),
            request=command.request,
            kind=command.kind,
            generation=state.generation,
            node=NodeId(0),
            parent=None,
            message_id=command.message_id,
        )
    ]


def place_deferred(state: State, command: PlaceMessages, now: Millis, rules: Rules) -> list[Event]:
    """Return the events that give a deferred turn its messages, above its reserved answer (R-10)."""
    turn = state.open.get(command.turn)
    if turn is None or not turn.accepted.deferred or turn.status is not TurnStatus.ACCEPTED:
        raise Rejected(f"unable to place messages; turn {command.turn} does not wait for any")
    known = state.tree.known_ids()
    taken = [message for message in command.messages if message["id"] not in known]
    stamp = Stamp(now, turn.accepted.principal, believes="answers")
    placed = _chain(state, taken, state.tree.nodes[turn.node].parent, stamp, rules)
    # Without new messages, the event still says that the turn may begin.
    return [
        *_replacements(state, _changed(state, command.messages, rules), rules),
        MessagesPut(messages=placed, cause="deferred", turn=turn.id),
    ]


def put_messages(state: State, command: PutMessages, now: Millis, rules: Rules) -> list[Event]:
    """Return the events of storing messages without a turn: new ones at the leaf, changed ones in place (R-8).

    Raises:
        MessageRefused: a client may not store one of them; none is stored.
    """
    if command.trusted:
        known = state.tree.known_ids()
        changed = _changed(state, command.messages, rules)
        new = [message for message in command.messages if message["id"] not in known]
    else:
        changed, new = changes_of(state, command.messages, rules)
    stamp = None if command.is_copy else Stamp(now, command.principal, believes="all" if command.trusted else "nothing")
    said_anew = stamp if not command.trusted else None  # the agent's own code may change a message of another author
    events = _replacements(state, changed, rules, stamp=said_anew, cause=command.cause, origin=command.origin)
    placed = _chain(state, new, state.tree.leaf, stamp, rules)
    if placed:
        events += copied_requests(command.requests) if rules.has_list_events else ()
        events.append(MessagesPut(messages=placed, cause=command.cause, origin=command.origin))
    if placed and command.is_copy and command.principal is not None and rules.has_list_events:
        owner_of = rules.follow_ups.owner_of if rules.follow_ups is not None else None
        events += own_copy(state, command.principal, len(placed), owner_of)
    return events


def _refuse_when_full(state: State, rules: Rules) -> None:
    waiting = sum(1 for _ in state.chat_turns())
    if waiting >= rules.max_queued:
        raise TooManyQueued(f"unable to accept the turn; {waiting} turns are waiting, which is the limit")


def _plan(state: State, messages: Sequence[JsonObject], stamp: Stamp, *, trusted: bool, rules: Rules) -> _Plan:
    known = state.tree.known_ids()
    taken = _new_messages(messages, known, trusted=trusted)
    if taken:
        return _Plan(state.tree.leaf, _chain(state, taken, state.tree.leaf, stamp, rules))
    last = next((message for message in reversed(messages) if message["id"] in known), None)
    if last is None or last is not messages[-1]:
        # An empty list never truncates the conversation, nor does one that ends with an unknown message.
        return _Plan(state.tree.leaf, [])
    node = state.tree.node_of_message(last["id"])
    assert node is not None
    place = state.tree.nodes[node]
    if not trusted and last["role"] == "user" and _is_edit(last, place, rules):
        return _Plan(place.parent, _chain(state, [last], place.parent, stamp, rules))
    return _Plan(node, [])


def _is_edit(message: JsonObject, place: Node, rules: Rules) -> bool:
    """Return whether a client's question differs from the stored one with its id."""
    if place.role != "user":
        raise MessageRefused(f"unable to take message {message['id']!r}; a message of another role has this id")
    if not _differs(message, place, rules):
        return False
    check_questions([message])
    return True


def _new_messages(messages: Sequence[JsonObject], known: AbstractSet[MessageId], *, trusted: bool) -> list[JsonObject]:
    if trusted:
        return [message for message in messages if message["id"] not in known]
    taken: list[JsonObject] = []
    for message in reversed(messages):
        if message["role"] != "user" or message["id"] in known:
            break
        taken.append(message)
    return taken[::-1]


def _chain(
    state: State, messages: Iterable[JsonObject], parent: NodeId | None, stamp: Stamp | None, rules: Rules
) -> list[Placed]:
    """Return places for messages, each below the one before, the first below `parent`. A repeated id is placed once."""
    placed: list[Placed] = []
    seen: set[str] = set()
    for message in messages:
        if message["id"] in seen:
            continue
        seen.add(message["id"])
        node = NodeId(_next_node(state, placed))
        kept = sanitized(stamp.put_on(message) if stamp is not None else message, rules)
        placed.append(Placed(node, parent, MessageId(message["id"]), message["role"], to_raw(kept)))
        parent = node
    return placed


def _next_node(state: State, placed: Sequence[Placed]) -> int:
    return (placed[-1].node if placed else state.tree.last_node) + 1


def _differs(message: JsonObject, place: Node, rules: Rules) -> bool:
    if place.body is None:
        return False
    # Unreadable parts are never stored: a client that sends them with a stored message has changed nothing.
    readable = {**message, "parts": [part for part in message["parts"] if is_part(part)]}
    stored: JsonObject = msgspec.json.decode(place.body)
    kept = sanitized(with_fields(readable, fields_of(stored)), rules)
    compared = msgspec.json.decode(msgspec.json.encode(without_fields(kept)))
    assert isinstance(compared, dict)
    return with_plain_urls(compared) != with_plain_urls(without_fields(stored))


def _changed(state: State, messages: Sequence[JsonObject], rules: Rules) -> list[tuple[NodeId, JsonObject]]:
    """Return the messages that differ from the stored ones, with their nodes. A message never changes its role."""
    # The message of an open turn is computed from its chunks: a change in between would be lost.
    written = {turn.node for turn in state.message_turns() if turn.fold is not None}
    found: list[tuple[NodeId, JsonObject]] = []
    for message in messages:
        node = state.tree.node_of_message(message["id"])
        if (
            node is not None
            and node not in written
            and state.tree.nodes[node].role == message["role"]
            and _differs(message, state.tree.nodes[node], rules)
        ):
            found.append((node, message))
    return found


def _replacements(
    state: State,
    changed: Iterable[tuple[NodeId, JsonObject]],
    rules: Rules,
    *,
    stamp: Stamp | None = None,
    cause: str = "saved",
    origin: str | None = None,
) -> list[Event]:
    events: list[Event] = []
    for node, message in changed:
        kept = sanitized(stamped_change(message, state.tree.nodes[node].body, stamp), rules)
        events.append(MessageReplaced(node, to_raw(kept), cause=cause, origin=origin))
    return events


def _trailing_user_ids(messages: Sequence[JsonObject]) -> list[MessageId]:
    ids: list[MessageId] = []
    for message in reversed(messages):
        if message["role"] != "user":
            break
        ids.append(MessageId(message["id"]))
    return ids[::-1]


# -- turns that wait (R-7) --------------------------------------------------------------


def _apply_policy(state: State, command: Submit) -> tuple[list[Event], list[TurnState] | None, list[TurnState]]:
    """Return the ends of superseded turns, the superseded turns, and those of them to merge with the new one.

    The second is None when the policy drops the new turn, and empty when no turn is superseded.
    """
    overlapping = list(state.chat_turns())
    if command.trusted or command.trigger != "submit-message" or not overlapping:
        return [], [], []
    match command.policy.name:
        case "queue" | "steer":
            superseded: list[TurnState] = []
        case "drop":
            return [], None, []
        case "latest" | "debounce":
            superseded = [
                turn for turn in overlapping if _may_be_superseded(turn) and _has_same_principal(turn, command)
            ]
        case "merge":
            superseded = _mergeable_tail(state, overlapping, command) if _adds_question(state, command) else []
        case _:
            assert_never(command.policy.name)
    endings: list[Event] = [TurnEnded(turn.id, Outcome.SKIPPED, reason="superseded") for turn in superseded]
    return endings, superseded, superseded if command.policy.name == "merge" else []


def is_steered(state: State, turn: TurnState, rules: Rules) -> bool:
    """Return whether a client's question waits that the model has to read before the next step of `turn`.

    The turn then ends after its step, and the turn of the question goes on: the model reads the same messages as it
    would have, and clients see them in the order in which they were sent. A turn that the agent's own code started is
    not ended early, because that code waits for all of it.
    """
    if rules.policy.name != "steer" or turn.accepted.trusted:
        return False
    questions = (each for each in state.chat_turns() if not each.is_continuation)
    waiting = next((each for each in questions if each.status is TurnStatus.ACCEPTED), None)
    return waiting is not None and _may_be_superseded(waiting)


def _may_be_superseded(turn: TurnState) -> bool:
    accepted = turn.accepted
    waits = turn.status is TurnStatus.ACCEPTED and accepted.kind is TurnKind.CHAT and not accepted.deferred
    return waits and not accepted.trusted and accepted.trigger == "submit-message" and bool(accepted.messages)


def _has_same_principal(turn: TurnState, command: Submit) -> bool:
    """Return whether a turn has the principal of the command. Questions of others stay as they are (R-35)."""
    before, now = turn.accepted.principal, command.principal
    return (before.id if before is not None else None) == (now.id if now is not None else None)


def _adds_question(state: State, command: Submit) -> bool:
    """Return whether a submit adds a question. An edit or a shorter list makes a branch, which is never merged."""
    return bool(_new_messages(command.messages or (), state.tree.known_ids(), trusted=False))


def _mergeable_tail(state: State, overlapping: list[TurnState], command: Submit) -> list[TurnState]:
    """Return the waiting questions at the end of the path: only their messages can be removed from the tree."""
    tail: list[TurnState] = []
    below = state.tree.leaf
    for turn in reversed(overlapping):
        if not _may_be_superseded(turn) or turn.node != below or not _has_same_principal(turn, command):
            break
        tail.append(turn)
        below = state.tree.nodes[turn.accepted.messages[0].node].parent
    return tail[::-1]


def _drop(state: State, command: Submit) -> list[Event]:
    turn = TurnId(state.last_turn + 1)
    accepted = TurnAccepted(
        turn=turn,
        request=command.request,
        kind=TurnKind.CHAT,
        generation=state.generation,
        node=NodeId(0),
        parent=None,
        message_id=command.message_id,
        message_ids=_trailing_user_ids(command.messages or ()),
        trigger=command.trigger,
        origin=command.origin,
        dropped=True,
        principal=command.principal,
    )
    return [accepted, TurnEnded(turn, Outcome.SKIPPED, reason="dropped")]


def _merge(state: State, plan: _Plan, waiting: list[TurnState]) -> tuple[_Plan, MessagesRemoved]:
    """Replace the waiting questions and the new one by a single message with the last id."""
    questions = [placed.node for turn in waiting for placed in turn.accepted.messages]
    gone = [*questions, *(turn.node for turn in waiting)]
    bodies = [state.tree.nodes[node].body for node in questions]
    messages = [msgspec.json.decode(body) for body in bodies if body is not None]
    messages += [msgspec.json.decode(bytes(placed.message)) for placed in plan.placed]
    parent = state.tree.nodes[questions[0]].parent
    merged = _merged_message(messages)
    node = NodeId(state.tree.last_node + 1)
    placed = Placed(node, parent, MessageId(merged["id"]), "user", to_raw(merged))
    return _Plan(parent, [placed]), MessagesRemoved(gone, cause="merged")


def _merged_message(messages: list[JsonObject]) -> JsonObject:
    texts: list[str] = []
    others: list[JsonObject] = []
    for message in messages:
        for part in message["parts"]:
            if part.get("type") == "text" and isinstance(part.get("text"), str):
                texts.append(part["text"])
            else:
                others.append(part)
    text: list[JsonObject] = [{"type": "text", "text": "\n\n".join(texts)}] if texts else []
    return {**messages[-1], "parts": [*text, *others]}


def _debounced(command: Submit, now: Millis) -> Millis | None:
    """Return when a debounced question may start. The first question waits as well, because another may follow."""
    if command.policy.name != "debounce" or command.trusted or command.trigger != "submit-message":
        return None
    return Millis(now + command.policy.debounce)
