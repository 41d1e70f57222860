"""Every seeded bug, by topic."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.bugs import (
    agent_tools,
    agents,
    cluster,
    commands,
    conversations,
    core_answers,
    core_jobs,
    core_messages,
    core_state,
    core_turns,
    messages,
    postgres_databases,
    runtime_agents,
    runtime_turns,
    server,
    server_access,
    sharing,
    store,
    store_writer,
    tools,
    wire,
)
from tests.mutants.changes import replace

__all__ = ["ALL", "HARMLESS"]

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
    *postgres_databases.BUGS,
    *commands.BUGS,
    *server.BUGS,
    *server_access.BUGS,
    *agent_tools.BUGS,
    *agents.BUGS,
    *tools.BUGS,
    *cluster.BUGS,
    *sharing.BUGS,
    *conversations.BUGS,
]

HARMLESS = Bug(
    "core:turn_is_prunable",
    "nothing",
    replace("$kind is not TurnKind.RSM", "not ($kind is TurnKind.RSM)"),
    "tests/core/test_transcript.py::test_only_chunks_of_old_ended_answers_may_go",
    "nothing changes for any client",
)
"""A change that no test may notice."""
