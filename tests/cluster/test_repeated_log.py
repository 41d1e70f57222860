"""A line that repeats is written once, then at most once a minute, with the number of repeats."""

from __future__ import annotations

import logging

import pytest

from everyword.cluster.repeated_log import INTERVAL, MOST_KEYS, RepeatedLog

LOG = logging.getLogger("everyword.test")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, LOG.name)
    return caplog


def test_the_same_is_written_again_after_a_minute_with_its_number(lines: pytest.LogCaptureFixture) -> None:
    now = 0.0
    repeated = RepeatedLog(LOG, logging.INFO, lambda: now)
    for _ in range(600):
        repeated.write((1, "lost"), "unable to link")
        now += 0.1 + 1e-9
    repeated.write((1, "lost"), "unable to link")
    repeated.write((2, "lost"), "unable to link to another")
    assert lines.messages == [
        "unable to link",
        "unable to link (600 times since the last message about it)",
        "unable to link to another",
    ]


def test_a_peer_that_calls_itself_by_many_names_does_not_fill_the_log(lines: pytest.LogCaptureFixture) -> None:
    now = 0.0
    repeated = RepeatedLog(LOG, logging.INFO, lambda: now)
    for number in range(10_000):
        repeated.write(number, "refused")
    assert len(lines.messages) == MOST_KEYS + 1 == len(repeated._lines)
    now = INTERVAL
    repeated.write("new", "refused")
    assert len(repeated._lines) == 1
