"""What one client may ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.errors import TooManyQueued
from everyword.ids import AgentId, Millis
from everyword.server.rate_limits import MINUTE, RateLimiter, TrafficLimiter
from everyword.server.reader_limit import ReaderLimit


@given(st.lists(st.integers(0, 20_000), max_size=60), st.integers(1, 8))
def test_within_any_minute_no_more_are_let_through_than_the_limit(gaps: list[int], limit: int) -> None:
    pace, now = RateLimiter(limit), 0
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
    pace = RateLimiter(1, principals=2)
    assert [pace.wait_needed(who, Millis(0)) > 0 for who in ("ann", "ann", "bob")] == [False, True, False]
    pace.wait_needed("cid", Millis(0))
    assert pace.wait_needed("ann", Millis(0)) == 0  # forgotten: memory is bounded


def test_a_limit_of_none_lets_no_client_through() -> None:
    assert RateLimiter(0).wait_needed("ann", Millis(5)) == 60_000


@given(
    st.lists(st.tuples(st.integers(0, 30_000), st.integers(0, 12)), max_size=80), st.integers(1, 9), st.integers(1, 30)
)
def test_what_is_sent_passes_until_a_minutes_worth_is_there(
    sent: list[tuple[int, int]], frames: int, size: int
) -> None:
    """Within any minute at most two minutes' worth of frames passes: what was saved up, and what ran out meanwhile."""
    flow, now = TrafficLimiter(frames, size), 0
    passed: list[tuple[int, int]] = []
    for gap, amount in sent:
        now += gap
        wait = flow.wait_needed("ann", 1, amount, Millis(now))
        assert 0 <= wait <= MINUTE + 1
        if not wait:
            passed.append((now, amount))
        recent = [each for at, each in passed if at > now - MINUTE]
        assert len(recent) <= 2 * frames
        assert sum(recent[:-1]) <= 2 * size + 12, "one that begins below the limit may end above it"
        others = TrafficLimiter(frames, size)
        assert others.wait_needed("ann", 1, amount, Millis(now)) == 0


@given(st.integers(1, 50), st.integers(0, 40))
def test_a_client_that_waits_for_the_given_delay_gets_through(limit: int, more: int) -> None:
    flow = TrafficLimiter(limit, 10**9)
    assert [flow.wait_needed("ann", 1, 5, Millis(0)) for _ in range(limit)] == [0] * limit
    waits = [flow.wait_needed("ann", 1, 5, Millis(0)) for _ in range(more + 1)]
    assert all(waits) and waits == sorted(waits)
    if waits[-1] > 1:
        early = TrafficLimiter(limit, 10**9)
        for _ in range(limit + more + 1):
            early.wait_needed("ann", 1, 5, Millis(0))
        assert early.wait_needed("ann", 0, 0, Millis(waits[-1] - 1)) > 0
    assert flow.wait_needed("ann", 1, 5, Millis(waits[-1])) == 0


def test_a_client_that_ignores_the_delay_gets_more_than_a_minute() -> None:
    flow = TrafficLimiter(100, 10**9)
    waits = [flow.wait_needed("ann", 1, 1, Millis(n)) for n in range(300)]
    assert not any(waits[:100]) and all(waits[101:])
    assert (max(waits[:190]) <= MINUTE, waits[-1] > MINUTE) == (True, True)
    assert flow.wait_needed("ann", 1, 1, Millis(300 + MINUTE + 1)) == 0, "a minute later all is well"


def test_bytes_are_counted_whatever_the_number_of_frames() -> None:
    flow = TrafficLimiter(1000, 100)
    assert flow.wait_needed("ann", 1, 150, Millis(0)) == 0, "what one frame has is not cut in two"
    assert flow.wait_needed("ann", 1, 1, Millis(0)) > 0
    assert flow.wait_needed("bob", 1, 1, Millis(0)) == 0


def test_a_flow_remembers_so_many_principals_and_a_clock_may_go_back() -> None:
    flow = TrafficLimiter(1, 10, principals=2)
    assert [flow.wait_needed(who, 1, 1, Millis(50)) > 0 for who in ("ann", "ann", "bob")] == [False, True, False]
    assert flow.wait_needed("ann", 1, 1, Millis(0)) > 0
    flow.wait_needed("cid", 1, 1, Millis(50))
    flow.wait_needed("dan", 1, 1, Millis(50))
    assert flow.wait_needed("ann", 1, 1, Millis(50)) == 0  # forgotten: memory is bounded
    assert TrafficLimiter(0, 10).wait_needed("ann", 1, 1, Millis(0)) > MINUTE


def test_readers_are_counted_per_agent_and_released() -> None:
    readers, ann, bob = ReaderLimit(1, 10), AgentId("chat/ann"), AgentId("chat/bob")
    with readers.hold(ann, "user"):
        with pytest.raises(TooManyQueued, match="it has 1 readers"):
            readers.check(ann, "other")
        readers.check(bob, "user")
    assert readers.check(ann, "user") is None


def test_readers_are_counted_per_principal_over_all_agents() -> None:
    readers, ann, bob = ReaderLimit(10, 2), AgentId("chat/ann"), AgentId("chat/bob")
    with readers.hold(ann, "user"), readers.hold(bob, "user"):
        with pytest.raises(TooManyQueued, match="you have 2, which is the limit"):
            readers.check(ann, "user")
        readers.check(ann, "other")
    assert readers.check(ann, "user") is None
