"""What one client may ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.errors import TooManyQueued
from everyword.ids import AgentId, Millis
from everyword.server.limits import Pace, Seats


@given(st.lists(st.integers(0, 20_000), max_size=60), st.integers(1, 8))
def test_within_any_minute_no_more_are_let_through_than_the_limit(gaps: list[int], limit: int) -> None:
    pace, now = Pace(limit), 0
    passed: list[int] = []
    for gap in gaps:
        now += gap
        wait = pace.wait_needed("ann", Millis(now))
        recent = [at for at in passed if at > now - 60_000]
        assert (wait == 0) == (len(recent) < limit)
        if wait:
            assert wait == recent[0] + 60_000 - now
        else:
            passed.append(now)


def test_principals_do_not_use_up_each_others_requests_and_old_ones_are_forgotten() -> None:
    pace = Pace(1, principals=2)
    assert [pace.wait_needed(who, Millis(0)) > 0 for who in ("ann", "ann", "bob")] == [False, True, False]
    pace.wait_needed("cid", Millis(0))
    assert pace.wait_needed("ann", Millis(0)) == 0  # forgotten: memory is bounded


def test_a_limit_of_none_lets_nobody_through() -> None:
    assert Pace(0).wait_needed("ann", Millis(5)) == 60_000


def test_seats_are_counted_per_agent_and_given_back() -> None:
    seats, ann, bob = Seats(1, 10), AgentId("chat/ann"), AgentId("chat/bob")
    with seats.seat(ann, "user"):
        with pytest.raises(TooManyQueued, match="1 readers do"):
            seats.check(ann, "other")
        seats.check(bob, "user")
    assert seats.check(ann, "user") is None


def test_seats_are_counted_per_principal_over_all_agents() -> None:
    seats, ann, bob = Seats(10, 2), AgentId("chat/ann"), AgentId("chat/bob")
    with seats.seat(ann, "user"), seats.seat(bob, "user"):
        with pytest.raises(TooManyQueued, match="you have 2, which is the limit"):
            seats.check(ann, "user")
        seats.check(ann, "other")
    assert seats.check(ann, "user") is None
