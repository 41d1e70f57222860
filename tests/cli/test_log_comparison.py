"""The comparison of a log with its copy: what counts as the same, and what does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from everyword.cli.log_comparison import compare_logs
from everyword.ids import AgentId, Millis, Seq
from everyword.log.base import Stored

ANN = AgentId("chat/ann")


def event(seq: int, kind: str = "turn.ended", body: bytes = b"{}") -> Stored:
    return Stored(Seq(seq), Millis(seq), kind, None, body)


class Log:
    """A store with one log."""

    def __init__(self, events: Sequence[Stored]) -> None:
        self._events = events

    async def read(self, agent: AgentId, after: Seq, limit: int = 500, *, size: int | None = None) -> list[Stored]:
        return [each for each in self._events if each.seq > after][:limit]


LOG = [event(1, "turn.accepted"), event(2, "chunk"), event(3), event(4, "state.set"), event(5)]


@pytest.mark.parametrize(
    ("copy", "pruned", "later"),
    [
        (LOG, 0, 0),
        ([*LOG, event(6), event(7)], 0, 2),
        ([each for each in LOG if each.kind != "chunk"], 1, 0),
        ([each for each in LOG if each.kind not in ("chunk", "state.set")], 2, 0),
    ],
)
async def test_a_copy_that_went_on_or_was_pruned_is_the_same(copy: list[Stored], pruned: int, later: int) -> None:
    found = await compare_logs(Log(LOG), Log(copy), ANN)
    assert (found.is_same, found.events, found.pruned, found.later) == (True, 5, pruned, later)
    back = await compare_logs(Log(copy[:5]), Log(LOG), ANN)  # retention may delete in the source, too
    assert (back.is_same, back.pruned) == (True, pruned)


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        ([LOG[0], LOG[1], *LOG[3:]], "event 3 is missing"),
        (LOG[:4], "event 5 is missing, and all behind it"),
        ([*LOG[:2], event(3, body=b"[]"), *LOG[3:]], "event 3 is another one"),
        ([], "event 1 is missing, and all behind it"),
    ],
)
async def test_a_copy_without_an_event_or_with_another_one_differs(copy: list[Stored], why: str) -> None:
    found = await compare_logs(Log(LOG), Log(copy), ANN)
    assert (found.is_same, found.why) == (False, why)


async def test_a_copy_with_an_event_that_the_log_has_not_differs() -> None:
    found = await compare_logs(Log([LOG[0], *LOG[3:]]), Log(LOG), ANN)
    assert (found.is_same, found.why) == (False, "event 3 is not in the source")
