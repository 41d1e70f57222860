"""Delays between attempts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from everyword.client import Backoff


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_between_half_of_the_full_delay_and_all_of_it(attempt: int, chance: float) -> None:
    backoff = Backoff(first=0.5, factor=2.0, most=10.0)
    due = min(0.5 * 2.0 ** min(attempt - 1, 64), 10.0) * 1000
    assert due / 2 - 1 <= backoff.delay(attempt, lambda: chance) <= due


def test_delays_grow_up_to_the_maximum() -> None:
    delays = [Backoff(first=1.0, factor=3.0, most=5.0).delay(n, lambda: 1.0) for n in (1, 2, 3, 1000)]
    assert delays == [1000, 3000, 5000, 5000]
