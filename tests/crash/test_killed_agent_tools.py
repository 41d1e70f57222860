"""A real process is killed with an agent at work for another: each of them has one right end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from everyword.events import Event, MessageEnded, RunEnded, RunStarted, TurnEnded, decode_event
from everyword.ids import AgentId
from everyword.log.sqlite.store import SqliteLog
from everyword.messages.message import UIMessage
from tests.agents.bases import BASES
from tests.crash.proofs import check_log, read_all
from tests.crash.team import LEAD, WORKER
from tests.forked_processes import fork_process

pytestmark = pytest.mark.crash

PATIENCE = 60.0


class Team:
    """One log and one file of effects, and the processes that die over them."""

    def __init__(self, folder: Path, base: str) -> None:
        self._base = base
        self._log, self._effects = folder / "log.db", folder / "effects"

    async def live(self, how: str, action: str, until: str | None) -> list[str]:
        """Run a process until it says `until`, then kill it; without one until it dies. Return what it had said."""
        arguments = [str(self._log), str(self._effects), how, self._base, action]
        process = await asyncio.to_thread(fork_process, "tests.crash.team", *arguments)
        reading = asyncio.create_task(asyncio.to_thread(process.read, until=until))
        try:
            async with asyncio.timeout(PATIENCE):
                said = (await asyncio.shield(reading)).splitlines()
        finally:
            await asyncio.to_thread(process.kill)
            await reading
        assert until is None or until in said, f"it went by itself, having said {said}"
        return said

    @property
    def attempts(self) -> list[str]:
        lines = self._effects.read_text(encoding="utf-8").splitlines() if self._effects.exists() else []
        assert {line.split(" of ")[1] for line in lines} <= {"agent-tool:k"}, "there is one worker"
        return [line.split()[1] for line in lines]

    async def events(self, agent: AgentId) -> list[Event]:
        store = SqliteLog(self._log)
        await store.open()
        try:
            log = await read_all(store, agent)
            check_log(log)
        finally:
            await store.aclose()
        return [decode_event(stored.body) for stored in log]

    async def end(self) -> RunEnded:
        """Return how the run ended; it began and ended once."""
        events = await self.events(LEAD)
        assert len([event for event in events if isinstance(event, RunStarted)]) == 1
        (ended,) = (event for event in events if isinstance(event, RunEnded))
        return ended

    async def used(self, agent: AgentId) -> dict[str, Any]:
        """Return what the agent's only turn used."""
        (ended,) = (event for event in await self.events(agent) if isinstance(event, TurnEnded))
        used: dict[str, Any] = msgspec.json.decode(ended.usage)
        return used

    async def turn(self, agent: AgentId) -> tuple[str, str]:
        """Return how the agent's only turn ended, and what was said."""
        events = await self.events(agent)
        (ended,) = (event for event in events if isinstance(event, TurnEnded))
        said = [UIMessage.decode(bytes(event.message)).text for event in events if isinstance(event, MessageEnded)]
        return ended.outcome.value, "".join(said)


@pytest.fixture(params=list(BASES))
def team(request: pytest.FixtureRequest, tmp_path: Path) -> Team:
    return Team(tmp_path, request.param)


async def test_both_killed_in_the_middle_go_on_and_the_worker_is_not_asked_twice(team: Team) -> None:
    """Traps 188 and 190."""
    await team.live("hang", "ask", until="at work")
    assert await team.live("work", "settle", until="settled") == ["at work", "settled"]
    assert team.attempts == ["1", "2"]
    assert (await team.turn(WORKER), await team.turn(LEAD)) == (
        ("completed", "half whole"),
        ("completed", "half whole"),
    )
    assert ((await team.end()).status, (await team.end()).summary) == ("completed", "half whole")
    assert await team.used(WORKER) and (await team.used(LEAD))["subAgents"] == await team.used(WORKER), "once"


async def test_killed_again_and_again_it_still_comes_to_one_end(team: Team) -> None:
    await team.live("hang", "ask", until="at work")
    await team.live("hang", "settle", until="at work")
    await team.live("work", "settle", until="settled")
    assert team.attempts == ["1", "2", "3"]
    assert (await team.end()).status == "completed"
    assert await team.turn(LEAD) == ("completed", "half whole")


async def test_a_worker_that_kills_its_process_every_time_is_given_up_and_its_lead_told(team: Team) -> None:
    assert await team.live("die", "ask", until=None) == ["at work"]
    for _ in range(2):
        assert await team.live("die", "settle", until=None) == ["at work"]
    assert await team.live("die", "settle", until="settled") == ["settled"], "bounded"
    assert team.attempts == ["1", "2", "3"]
    end = await team.end()
    assert (end.status, "could not recover" in (end.error or "")) == ("error", True)
    outcome, said = await team.turn(LEAD)
    assert (outcome, "'status': 'error'" in said, "'retryable': False" in said) == ("completed", True, True)
    assert (await team.turn(WORKER))[0] == "error"


async def test_stopped_and_killed_before_the_worker_heard_of_it_both_are_stopped(team: Team) -> None:
    await team.live("hang", "ask", until="at work")
    await team.live("hang", "stop", until="stopped")
    await team.live("hang", "settle", until="settled")
    assert (await team.turn(LEAD))[0] == "aborted"
    assert (await team.end()).status == "aborted"
    assert await team.turn(WORKER) == ("aborted", "half ")
