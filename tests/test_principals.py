"""What a principal may be made of, and what is stored of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from everyword import Principal
from everyword.errors import UsageError
from everyword.principals import MOST_CLAIMS, act_for, acting_as, acting_for


def test_what_is_stored_comes_back_without_its_time_limit() -> None:
    given = Principal("ann", name="Ann", claims={"role": "agent", "teams": ("a", "b")}, expires_at=1_800_000_000)
    stored = Principal.of(given.identity)
    assert stored == Principal("ann", name="Ann", claims={"role": "agent", "teams": ["a", "b"]})
    assert Principal.of(Principal("ann", read_only=True).identity).read_only


@pytest.mark.parametrize(
    ("at", "milliseconds"),
    [(1.5, 1500), (2, 2000), (datetime(1970, 1, 1, 0, 1, tzinfo=UTC), 60_000), (None, None)],
)
def test_when_it_expires_is_a_moment(at: Any, milliseconds: int | None) -> None:
    assert Principal("ann", expires_at=at).expires == milliseconds


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"id": ""}, "id"),
        ({"id": 7}, "id"),
        ({"id": "x" * 600}, "id"),
        ({"id": "\ud800"}, "id"),
        ({"id": "ann", "name": 7}, "name"),
        ({"id": "ann", "name": "x" * 600}, "name"),
        ({"id": "ann", "claims": ["admin"]}, "claims"),
        ({"id": "ann", "claims": {"user": object()}}, "claims are not JSON"),
        ({"id": "ann", "claims": {"x": "y" * MOST_CLAIMS}}, "claims have 4"),
        ({"id": "ann", "expires_at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001 - that is the point
        ({"id": "ann", "expires_at": "tomorrow"}, "time zone"),
        ({"id": "ann", "expires_at": True}, "time zone"),
        ({"id": "ann", "expires_at": float("nan")}, "time zone"),
    ],
)
def test_what_cannot_be_stored_is_refused_when_it_is_made(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Principal(**given)


def test_claims_may_be_as_large_as_the_limit() -> None:
    room = MOST_CLAIMS - len('{"x":""}')
    assert Principal("ann", claims={"x": "y" * room}).identity.id == "ann"


def test_a_block_with_a_principal_restores_the_one_before() -> None:
    ann, bob = Principal("ann").identity, Principal("bob").identity
    with acting_as(ann):
        with acting_as(bob):
            assert acting_for() == bob
        assert acting_for() == ann
        act_for(None)
        assert acting_for() is None
    assert acting_for() is None
