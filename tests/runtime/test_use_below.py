"""What happens below an agent keeps its conversation: messages, answers, jobs that are still to run."""

from __future__ import annotations

import msgspec
import pytest

from everyword.core.jobs import job_row
from everyword.core.state import JobState, State
from everyword.events import JobAdded, JobKind
from everyword.ids import AgentId, JobId, Millis
from everyword.log.memory import MemoryLog
from everyword.rows import CONVERSATION, ConversationSummary, KeptRow, encode_listed
from everyword.runtime.use_below import JOB_TIME, kept_until
from tests.log.building import Owner, fact

DAY, NOW = 86_400_000, Millis(10**9)
ROOM = AgentId("lobby/one/sub/room/a")


def talked(**changes: object) -> KeptRow:
    summary = msgspec.structs.replace(ConversationSummary(Millis(1), Millis(500)), **changes)
    return KeptRow(CONVERSATION, "", encode_listed(summary))


def job(kind: JobKind, due: int) -> KeptRow:
    state, added = State(), JobAdded(JobId("j"), kind, "tick", Millis(due))
    state.jobs[JobId("j")] = JobState(added, Millis(due))
    return job_row(state, JobId("j"))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (talked(), 500 + DAY),
        (talked(status="running"), NOW + DAY),
        (job("once", NOW + 5), NOW + 5 + JOB_TIME),
        (job("queue", 0), NOW + JOB_TIME),
        (job("cron", NOW + 5), 0),
        (KeptRow(CONVERSATION, "", b"idle\t0\t5\t\n{damaged"), 0),
    ],
)
async def test_what_happens_below_an_agent_keeps_it(row: KeptRow, expected: int) -> None:
    store = MemoryLog()
    await store.open()
    for agent, kept in (("lobby/one", talked(status="running")), (ROOM, row), ("lobby/two/sub/room/a", talked())):
        await (await Owner.take(store, AgentId(agent))).append(fact("x"), rows=[kept])
    assert await kept_until(store, AgentId("lobby/one"), DAY, NOW) == expected
