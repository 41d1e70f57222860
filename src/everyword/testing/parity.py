"""`assert_parity`: run a conversation with a cut and a crash at every place, and compare what observers show."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ..agents import Agent
from ..errors import UsageError
from ..server import Everyword
from .actions import ScriptAction
from .hold_points import HoldPoints, happens_before_end, with_hold_points
from .local_server import LocalServer
from .observers import JsonObject
from .parity_run import ParityRun

__all__ = ["Parity", "assert_parity"]

Subject = type[Agent] | Everyword | Callable[[], type[Agent] | Everyword]

PATIENCE: Final = 30.0
"""Seconds after which a run fails because it has not ended."""


@dataclass(frozen=True, slots=True)
class Parity:
    """The number of cuts between chunks, of crashes, and of comparisons."""

    cuts: int
    kills: int
    comparisons: int


async def assert_parity(
    agent: Subject,
    script: str | ScriptAction | Sequence[str | ScriptAction],
    *,
    kind: str | None = None,
    cuts: bool = True,
    kills: bool = True,
    every: int = 1,
    is_seamless: bool = True,
) -> Parity:
    """Check that all observers show the same conversation after cuts, crashes and late connections.

    `script` is what a person does: questions as text, and actions such as `Approve`, `Deny`, `Give`, `AskAndStop` and
    `Regenerate`. It runs once undisturbed, then with a cut after every item of every answer (connected clients
    reconnect, others connect late), then with the process killed before and after every append, on a SQLite file that
    is opened again. Each time all observers must end with the same messages, outcomes and error texts, and so must the
    stored conversation.

    With `is_seamless`, crashes must not change the answers either: an agent that starts over when it is asked to
    continue fails the check. `agent` is a class, an app, or a function that makes one for every run. For an app with
    several kinds, `kind` selects one. `every=3` tries only every third cut and crash.

    Raises:
        AssertionError: an observer differs; the text names it and the difference.
    """
    runs = _Runs(agent, [script] if isinstance(script, str | ScriptAction) else list(script), kind, is_seamless)
    undisturbed = await runs.play("in peace")
    cut = 0
    while cuts and await runs.cut_at(cut * every, cuts_acting_tab=cut % 2 == 1):
        cut += 1
    crash = 0
    with tempfile.TemporaryDirectory() as folder:
        while kills and await runs.kill_at(crash * every + 1, Path(folder), undisturbed):
            crash += 1
    return Parity(cut, 2 * crash, runs.comparisons)


class _Runs:
    """Runs the script again and again."""

    def __init__(self, subject: Subject, script: list[str | ScriptAction], kind: str | None, is_seamless: bool) -> None:
        self.comparisons = 0
        self._subject, self._script, self._kind, self._is_seamless = subject, script, kind, is_seamless

    async def play(self, when: str) -> list[JsonObject]:
        async with self._run(when, is_strict=True) as run:
            await run.played()
            return await run.compare()

    async def cut_at(self, place: int, *, cuts_acting_tab: bool = False) -> bool:
        """Run with a cut at the hold point of this number; return False when there are fewer points."""
        async with self._run(f"cut at place {place}") as run:
            run.points.hold_at(place)
            playing = asyncio.create_task(run.played())
            try:
                if await happens_before_end(run.points.is_held, playing):
                    run.where = f"cut {run.points.held}"
                    await run.interrupt(cuts_acting_tab=cuts_acting_tab)
                await playing
            finally:
                playing.cancel()
                await asyncio.wait([playing])
            if not run.points.is_held.is_set():
                return False
            await run.compare()
        return True

    async def kill_at(self, append: int, folder: Path, undisturbed: list[JsonObject]) -> bool:
        """Run twice, with the process killed before and after this append; False when there are fewer appends."""
        reached = [await self._killed(append, when, folder, undisturbed) for when in ("before", "after")]
        return any(reached)

    async def _killed(
        self, append: int, when: Literal["before", "after"], folder: Path, undisturbed: list[JsonObject]
    ) -> bool:
        store = folder / f"{append}-{when}.db"
        async with self._run(f"killed {when} append {append}", store, crash_at=append, when=when) as run:
            playing, crashed = asyncio.create_task(run.played()), run.server.crashed
            try:
                has_crashed = await happens_before_end(crashed, playing)
                if has_crashed:
                    run.points.hold_next()
                    await run.server.restart()
                    if await happens_before_end(run.points.is_held, playing):
                        await run.look()
                await playing
            finally:
                playing.cancel()
                await asyncio.wait([playing])
            if not has_crashed:
                return False
            stored = await run.compare()
            if self._is_seamless:
                run.compare_with_undisturbed(undisturbed, stored)
        return True

    @asynccontextmanager
    async def _run(
        self, where: str, store: Path | str = "memory:", *, is_strict: bool = False, **start: Any
    ) -> AsyncIterator[ParityRun]:
        given: Any = self._subject
        subject = given if isinstance(given, type | Everyword) else given()
        app = subject if isinstance(subject, Everyword) else Everyword([subject])
        points = HoldPoints()
        server = LocalServer(with_hold_points(app, points), store=store)
        run = ParityRun(where, server, _kind_of(app, self._kind), points, self._script, is_strict=is_strict)
        try:
            async with asyncio.timeout(PATIENCE):
                await server.start(**start)
                await run.open()
                yield run
        except TimeoutError:
            raise AssertionError(f"{run.where}: it did not end\n{run.describe()}") from None
        finally:
            points.release()
            self.comparisons += run.comparisons
            await run.close()
            await server.kill()


def _kind_of(app: Everyword, kind: str | None) -> str:
    if kind is None and len(app.classes) == 1:
        return next(iter(app.classes))
    if kind not in app.classes:
        raise UsageError(f"unable to check parity; say which kind: one of {', '.join(sorted(app.classes))}")
    return kind
