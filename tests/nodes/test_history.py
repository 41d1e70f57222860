"""The history checker: a sound history has no violations, and each thing that must not be is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from everyword.events import Event, JobAdded, JobEnded, JobStarted, encode_event
from everyword.ids import JobId, Millis
from tests.nodes.history import History, Listed, LogEvent, Seen

JOB = JobId("j")


def _events(*kinds: str, epochs: str = "", first: int = 1) -> list[LogEvent]:
    numbered = enumerate(zip(kinds, (epochs or "1" * len(kinds)), strict=True), first)
    return [LogEvent("a", seq, 0, int(epoch), seq, kind, 1) for seq, (kind, epoch) in numbered]


def _jobs(*events: Event, epochs: str) -> list[LogEvent]:
    kinds = {JobAdded: "job.added", JobStarted: "job.started", JobEnded: "job.ended"}
    return [
        LogEvent("a", seq, 0, int(epoch), seq, kinds[type(event)], None, encode_event(event))
        for seq, (event, epoch) in enumerate(zip(events, epochs, strict=True), 1)
    ]


TURN = _events("turn.accepted", "chunk", "chunk", "turn.ended", epochs="1122")
ADDED, STARTED, ENDED = JobAdded(JOB, "once", "woken", Millis(1)), JobStarted(JOB, 1), JobEnded(JOB, 1, "done")


def _sound() -> History:
    history = History()
    history.asked["c"] = history.unsure["c"] = ["one two"]
    for client in ("n1", "n2"):
        history.final["c"][client] = [("q", "user", "one two"), ("m", "assistant", "one two ")]
    history.seen = [Seen("w", "m", "one "), Seen("w", "m", "one two "), Seen("w", "m", "one two ", is_ended=True)]
    history.listed = [Listed("w", ("q",)), Listed("w", ("q", "m"))]
    return history


def test_a_sound_history_has_no_violations() -> None:
    assert _sound().violations(TURN) == []
    assert _sound().violations(_jobs(ADDED, STARTED, STARTED, ENDED, epochs="1122")) == []


LOGS = {
    "turn 1, accepted at 1, ended 0 times": TURN[:3],
    "turn 1, accepted at 1, ended 2 times": [*TURN, *_events("turn.ended", epochs="2", first=5)],
    "chunk of turn 1 follows its end": [*TURN, *_events("chunk", epochs="2", first=5)],
    "3 follows 1": [TURN[0], *TURN[2:]],
    "2 follows 2": [*TURN[:2], *TURN[1:]],
    "has epoch 1 after 2": _events("turn.accepted", "chunk", "chunk", "turn.ended", epochs="1212"),
    "time goes back": [TURN[0]._replace(at=9), *TURN[1:]],
    "job j started twice in epoch 1": _jobs(ADDED, STARTED, STARTED, ENDED, epochs="1111"),
    "job j started after its end": _jobs(ADDED, STARTED, ENDED, STARTED, epochs="1112"),
    "job j ended 0 times": _jobs(ADDED, STARTED, epochs="11"),
    "job j ended 2 times": _jobs(ADDED, STARTED, ENDED, ENDED, epochs="1112"),
}


@pytest.mark.parametrize("why", LOGS)
def test_a_log_that_must_not_be_is_reported(why: str) -> None:
    assert any(why in each for each in _sound().violations(LOGS[why]))


def _answer(history: History, text: str) -> None:
    for messages in history.final["c"].values():
        messages[1] = ("m", "assistant", text)
    history.seen.clear()


CHANGES: dict[str, Callable[[History], object]] = {
    "has another end than": lambda history: history.final["c"]["n2"].pop(),
    "w saw 'one three'": lambda history: history.seen.append(Seen("w", "m", "one three")),
    "saw m go back": lambda history: history.seen.append(Seen("w", "m", "one ")),
    "v saw 'one '": lambda history: history.seen.append(Seen("v", "m", "one ", is_ended=True)),
    "was sent ('q',) after": lambda history: history.listed.append(Listed("w", ("q",))),
    "were answered and are not stored": lambda history: history.asked["c"].append("three"),
    "that were not asked": lambda history: (history.asked["c"].clear(), history.unsure["c"].clear()),
    "the answers are not those": lambda history: _answer(history, "one two one two "),
    "no client saw anything": lambda history: history.failed.append("no client saw anything for 9 s"),
}


@pytest.mark.parametrize("why", CHANGES)
def test_a_client_that_sees_what_must_not_be_is_reported(why: str) -> None:
    history = _sound()
    CHANGES[why](history)
    found: Sequence[str] = history.violations(TURN)
    assert any(why in each for each in found), found
