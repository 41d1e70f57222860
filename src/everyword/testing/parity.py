"""`assert_parity`: play a conversation with every cut, every death and every observer, and compare what they saw."""

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
from .acts import Act
from .local import LocalServer
from .observers import JsonObject
from .pace import Pace, comes, paced
from .stage import Stage

__all__ = ["Parity", "assert_parity"]

Subject = type[Agent] | Everyword | Callable[[], type[Agent] | Everyword]

PATIENCE: Final = 30.0
"""Seconds after which a run that has not ended never will."""


@dataclass(frozen=True, slots=True)
class Parity:
    """What was tried: how many cuts between chunks, how many deaths, and how many comparisons were made."""

    cuts: int
    kills: int
    comparisons: int


async def assert_parity(
    agent: Subject,
    script: str | Act | Sequence[str | Act],
    *,
    kind: str | None = None,
    cuts: bool = True,
    kills: bool = True,
    every: int = 1,
    is_seamless: bool = True,
) -> Parity:
    """Check that nobody can tell a cut, a death or a late arrival from a quiet day.

    `script` is what a person does: questions as text, and `Approve`, `Deny`, `Give`, `AskAndStop`,
    `Regenerate`. It is played
    once in peace, then with a cut after every item of every answer (who was there reconnects, others arrive late), then
    with the process killed before and after every append, over a SQLite file that is really opened again. Each time
    all observers must end with the same messages, outcomes and error texts, and so must the stored conversation.

    With `is_seamless`, deaths must not change the answers either: an agent that begins anew when it is asked to go on
    is reported. `agent` is a class, an app, or a function that makes one for every run. Of an app with several kinds,
    `kind` says which. `every` leaves out cuts and deaths: 3 means every third.

    Raises:
        AssertionError: with who saw what, and where it differs.
    """
    runs = _Runs(agent, [script] if isinstance(script, str | Act) else list(script), kind, is_seamless)
    peace = await runs.play("in peace")
    cut = 0
    while cuts and await runs.cut_at(cut * every, cuts_asker=cut % 2 == 1):
        cut += 1
    died = 0
    with tempfile.TemporaryDirectory() as folder:
        while kills and await runs.kill_at(died * every + 1, Path(folder), peace):
            died += 1
    return Parity(cut, 2 * died, runs.comparisons)


class _Runs:
    """Plays the script again and again."""

    def __init__(self, subject: Subject, script: list[str | Act], kind: str | None, is_seamless: bool) -> None:
        self.comparisons = 0
        self._subject, self._script, self._kind, self._is_seamless = subject, script, kind, is_seamless

    async def play(self, when: str) -> list[JsonObject]:
        async with self._stage(when, is_strict=True) as stage:
            await stage.played()
            return await stage.compare()

    async def cut_at(self, place: int, *, cuts_asker: bool = False) -> bool:
        """Play with a cut at this place of the answers and what is done meanwhile; False when there is none."""
        async with self._stage(f"cut at place {place}") as stage:
            stage.pace.hold_at(place)
            playing = asyncio.create_task(stage.played())
            try:
                if await comes(stage.pace.is_held, playing):
                    stage.where = f"cut {stage.pace.held}"
                    await stage.interrupt(cuts_asker=cuts_asker)
                await playing
            finally:
                playing.cancel()
                await asyncio.wait([playing])
            if not stage.pace.is_held.is_set():
                return False
            await stage.compare()
        return True

    async def kill_at(self, append: int, folder: Path, peace: list[JsonObject]) -> bool:
        """Play twice, with the process killed before and after this append; False when there are not that many."""
        reached = [await self._killed(append, when, folder, peace) for when in ("before", "after")]
        return any(reached)

    async def _killed(
        self, append: int, when: Literal["before", "after"], folder: Path, peace: list[JsonObject]
    ) -> bool:
        store = folder / f"{append}-{when}.db"
        async with self._stage(f"killed {when} append {append}", store, crash_at=append, when=when) as stage:
            playing, crashed = asyncio.create_task(stage.played()), stage.server.crashed
            try:
                is_dead = await comes(crashed, playing)
                if is_dead:
                    stage.pace.hold_next()
                    await stage.server.restart()
                    if await comes(stage.pace.is_held, playing):
                        await stage.look()
                await playing
            finally:
                playing.cancel()
                await asyncio.wait([playing])
            if not is_dead:
                return False
            stored = await stage.compare()
            if self._is_seamless:
                stage.compare_with_peace(peace, stored)
        return True

    @asynccontextmanager
    async def _stage(
        self, where: str, store: Path | str = "memory:", *, is_strict: bool = False, **start: Any
    ) -> AsyncIterator[Stage]:
        given: Any = self._subject
        subject = given if isinstance(given, type | Everyword) else given()
        app = subject if isinstance(subject, Everyword) else Everyword([subject])
        pace = Pace()
        server = LocalServer(paced(app, pace), store=store)
        stage = Stage(where, server, _kind_of(app, self._kind), pace, self._script, is_strict=is_strict)
        try:
            async with asyncio.timeout(PATIENCE):
                await server.start(**start)
                await stage.open()
                yield stage
        except TimeoutError:
            raise AssertionError(f"{stage.where}: it did not end\n{stage.describe()}") from None
        finally:
            pace.release()
            self.comparisons += stage.comparisons
            await stage.close()
            await server.kill()


def _kind_of(app: Everyword, kind: str | None) -> str:
    if kind is None and len(app.classes) == 1:
        return next(iter(app.classes))
    if kind not in app.classes:
        raise UsageError(f"unable to check parity; say which kind: one of {', '.join(sorted(app.classes))}")
    return kind
