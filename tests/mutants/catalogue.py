"""Every seeded bug, by topic."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.bugs import (
    agent_tools,
    agents,
    core_answers,
    core_jobs,
    core_messages,
    core_state,
    core_turns,
    messages,
    runtime_agents,
    runtime_turns,
    server,
    server_access,
    store,
    store_writer,
    tools,
    wire,
)

__all__ = ["ALL"]

ALL: list[Bug] = [
    *core_turns.BUGS,
    *core_messages.BUGS,
    *core_answers.BUGS,
    *core_state.BUGS,
    *core_jobs.BUGS,
    *messages.BUGS,
    *wire.BUGS,
    *runtime_turns.BUGS,
    *runtime_agents.BUGS,
    *store.BUGS,
    *store_writer.BUGS,
    *server.BUGS,
    *server_access.BUGS,
    *agent_tools.BUGS,
    *agents.BUGS,
    *tools.BUGS,
]
