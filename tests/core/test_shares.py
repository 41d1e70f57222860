"""Shared links as a fold of the log: created, revoked, expired, and ended by a clear."""

from __future__ import annotations

import pytest

from everyword.core.commands import ClearConversation, Command, CreateShare, PutMessages, RevokeShare
from everyword.core.decide import decide
from everyword.core.evolve import evolve
from everyword.core.project import project
from everyword.core.restore import restore
from everyword.core.shares import MOST_SHARES
from everyword.core.state import Rules, State
from everyword.errors import Rejected
from everyword.events import Event, Identity, ShareContent
from everyword.ids import Millis, ShareId
from everyword.rows import SHARE, KeptRow, Row
from everyword.wire.sse import public_event

QUESTION = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
ANN = Identity("ann", "Ann")


def create(name: str = "s1", **options: object) -> CreateShare:
    return CreateShare(ShareId(name), f"digest of {name}", principal=ANN, **options)  # type: ignore[arg-type]


def tell(state: State, command: Command, at: int = 10) -> tuple[list[Event], list[Row]]:
    events, rows = decide(state, command, Millis(at), Rules()), []
    for event in events:
        evolve(state, event, Millis(at))
        rows += project(state, event)
    return events, rows


def begun() -> State:
    state = State()
    tell(state, PutMessages([QUESTION]))
    return state


def share_rows(rows: list[Row]) -> list[KeptRow]:
    return [row for row in rows if isinstance(row, KeptRow) and row.kind == SHARE]


def test_a_link_has_a_row_by_the_digest_of_its_token() -> None:
    state = begun()
    _, rows = tell(state, create(expires_at=Millis(50), frozen=True, shows=ShareContent(tools="none"), label="x"))
    (row,) = share_rows(rows)
    assert row.key == "digest of s1"
    (record,) = state.shares.values()
    assert (record.created_at, record.expires_at, record.frozen, record.label) == (10, 50, True, "x")
    assert record.created_by is not None and record.created_by.name == "Ann"
    restored, problems = restore(None, [], [], [], [row])
    assert (restored.shares, problems) == ({ShareId("s1"): record}, [])
    assert restore(None, [], [], [], [KeptRow(SHARE, "x", b"{")])[1] != []


def test_a_revoked_link_has_no_row_and_is_revoked_once() -> None:
    state = begun()
    tell(state, create())
    _, rows = tell(state, RevokeShare(ShareId("s1")))
    assert share_rows(rows) == [KeptRow(SHARE, "digest of s1", None)]
    assert state.shares == {}
    assert tell(state, RevokeShare(ShareId("s1"))) == ([], [])


def test_a_clear_ends_all_links() -> None:
    state = begun()
    tell(state, create("s1"))
    tell(state, create("s2"))
    _, rows = tell(state, ClearConversation())
    assert [row.key for row in share_rows(rows)] == ["digest of s1", "digest of s2"]
    assert state.shares == {}


def test_an_expired_link_is_forgotten_with_the_next_one() -> None:
    state = begun()
    tell(state, create("s1", expires_at=Millis(20)))
    _, rows = tell(state, create("s2"), at=20)
    assert [(row.key, row.body is None) for row in share_rows(rows)] == [
        ("digest of s1", True),
        ("digest of s2", False),
    ]


def test_a_conversation_without_messages_has_no_links() -> None:
    with pytest.raises(Rejected, match="no messages"):
        tell(State(), create())


def test_the_number_of_links_is_limited_expired_ones_do_not_count() -> None:
    state = begun()
    for number in range(MOST_SHARES):
        tell(state, create(f"s{number}", expires_at=Millis(100)))
    with pytest.raises(Rejected, match="the limit"):
        tell(state, create("more"))
    tell(state, create("later"), at=100)
    assert list(state.shares) == ["later"]


def test_clients_that_read_the_log_see_neither_the_digest_nor_who_shared() -> None:
    (event,), _ = tell(begun(), create())
    shown = public_event(event)
    assert (getattr(shown, "digest", None), getattr(shown, "principal", 0)) == ("", None)
