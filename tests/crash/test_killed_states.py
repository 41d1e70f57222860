"""A real process is killed while many callers set one state: what any of them was told is stored, each number once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from everyword import Everyword
from everyword.events import StateSet, decode_event
from everyword.ids import AgentId
from tests.crash.counting import Counter
from tests.crash.proofs import check_log, read_all
from tests.forked_processes import fork_process

AGENT = AgentId("counter/ann")
LIVES = 8


@pytest.mark.crash
async def test_no_number_that_a_caller_was_told_is_lost_or_given_twice(tmp_path: Path) -> None:
    log, told = tmp_path / "log.db", list[int]()
    for life in range(LIVES):
        child = fork_process("tests.crash.counting", str(log))
        found = int(child.read(until="from").removeprefix("from "))
        assert found >= max(told, default=0), "what was told is there"
        told += [int(child.read(until="told").removeprefix("told ")) for _ in range(20 + 13 * life)]
        child.kill()
    assert len(told) == len(set(told))
    async with Everyword([Counter], store=str(log)) as app:
        stored = await read_all((await app.service()).directory.store, AGENT)
        check_log(stored)
        events = [decode_event(each.body) for each in stored]
        states = [msgspec.json.decode(bytes(event.state))["n"] for event in events if isinstance(event, StateSet)]
        assert states == list(range(1, len(states) + 1)) and set(told) <= set(states)
        assert await app.get(Counter, "ann").get_state() == {"n": len(states)}
