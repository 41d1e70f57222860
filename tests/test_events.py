"""Every event that is written can be read again, with every field that it may have (I-13)."""

from __future__ import annotations

import typing
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from everyword.events import (
    ABSENT,
    AgentCreated,
    AgentDestroyed,
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
    Outcome,
    Placed,
    RunEnded,
    RunStarted,
    RunTold,
    ShareContent,
    ShareCreated,
    ShareRevoked,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    TurnRetargeted,
    decode_event,
    encode_event,
    kind_of,
    to_raw,
)

JSON = Raw(b'{"a":[1,null]}')
PLACED = Placed(1, None, "m", "user", JSON)  # type: ignore[arg-type]
ANN = Identity("ann", "Ann", JSON, True)
FULL: list[Any] = [
    TurnAccepted(
        1,
        "r",
        TurnKind.CONTINUATION,
        2,
        3,
        4,
        "m",
        [PLACED],
        ["u"],
        "t",
        "o",
        "w",
        JSON,
        JSON,
        5,
        True,
        True,
        6,
        True,
        ANN,
        "t",
    ),  # type: ignore[arg-type]
    TurnRetargeted(1, 2, "m", 3, "w", "o"),  # type: ignore[arg-type]
    AttemptStarted(1, 2, "crash", True),  # type: ignore[arg-type]
    AttemptDelayed(1, 3, "retry"),  # type: ignore[arg-type]
    AttemptInterrupted(1, 3),  # type: ignore[arg-type]
    Chunk(1, 2, 3, JSON, True),  # type: ignore[arg-type]
    CallStarted(1, 2, "k", "tool"),  # type: ignore[arg-type]
    CallAnswered(1, "k", "approval", JSON, 2, "by", "o", False, ANN, "old", JSON, "tool"),  # type: ignore[arg-type]
    ApprovalRequested(1, 2, "k", "tool", "summary", "high", ["ann"], 5, ANN),  # type: ignore[arg-type]
    MessageEnded(1, 2, JSON, True),  # type: ignore[arg-type]
    CancelRequested(1, "by"),  # type: ignore[arg-type]
    TurnEnded(1, Outcome.ERROR, "reason", "error", "detail", "stop", JSON, 9, True),  # type: ignore[arg-type]
    HookDone(1),  # type: ignore[arg-type]
    MessagesPut([PLACED], "cause", "o", 1),  # type: ignore[arg-type]
    MessageReplaced(1, JSON, "cause", "o"),  # type: ignore[arg-type]
    MessagesRemoved([1, 2], "cause"),  # type: ignore[list-item]
    LeafMoved(1, "o"),  # type: ignore[arg-type]
    ChatCleared(1, "o"),  # type: ignore[arg-type]
    StateSet(JSON, "o"),
    ConversationChanged("t", "model", "ann", True, JSON, 5, ANN),
    ConversationRead("ann", 3),
    ShareCreated("s", "digest", True, 5, ShareContent(True, "all", True, True), "label", ANN),  # type: ignore[arg-type]
    ShareRevoked("s", ANN),  # type: ignore[arg-type]
    AgentCreated(),
    RunStarted("r", "kid", "k", 1, JSON, "p", 2, JSON, True, "T", 3, ANN, "t"),  # type: ignore[arg-type]
    RunEnded("r", "interrupted", "s", JSON, "e", "why", True, True, "old", JSON),  # type: ignore[arg-type]
    RunTold("r"),  # type: ignore[arg-type]
    JobAdded("j", "cron", "m", 5, JSON, "* * * * *", "UTC", 3, 7, "k", True, ANN),  # type: ignore[arg-type]
    JobStarted("j", 1, 2),  # type: ignore[arg-type]
    JobEnded("j", 1, "retry", 5, "why"),  # type: ignore[arg-type]
    FiberStarted("f", "name", 2, ANN),  # type: ignore[arg-type]
    FiberStashed("f", JSON),  # type: ignore[arg-type]
    FiberPaused("f"),  # type: ignore[arg-type]
    FiberEnded("f", "failed", "why", "g"),  # type: ignore[arg-type]
    AgentDestroyed(),
]


@pytest.mark.parametrize("event", FULL, ids=kind_of)
def test_an_event_with_every_field_set_comes_back_as_it_was(event: Event) -> None:
    """P-5."""
    fields = msgspec.structs.fields(event)
    left_out = [f.name for f in fields if f.default is not msgspec.NODEFAULT and getattr(event, f.name) == f.default]
    assert left_out == [], "give every field a value, so that it is written"
    written = encode_event(event)
    assert encode_event(decode_event(written)) == written
    assert len(msgspec.json.decode(written)) == len(fields) + 1


def test_every_kind_of_event_is_here() -> None:
    assert {type(event) for event in FULL} == set(typing.get_args(Event))


def test_absent_json_is_not_written_and_comes_back_as_absent() -> None:
    event = TurnEnded(1, Outcome.COMPLETED, usage=to_raw(None))  # type: ignore[arg-type]
    assert b"usage" not in encode_event(event)
    found = decode_event(encode_event(event))
    assert isinstance(found, TurnEnded) and found.usage is ABSENT
