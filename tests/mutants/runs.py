"""Seeded bugs of sub-agents and of agents as tools."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

IDS = "tests/test_ids.py"
CORE = "tests/core/test_runs.py"
TOOLS = "tests/agents/test_agent_tools.py"
WATCH = "tests/runtime/test_agent_tool_runs.py"
FRAMES = "tests/wire/test_runs.py"
FEEDS = "tests/server/test_runs.py"
SUBS = "tests/server/test_subs.py"
CHILDREN = "tests/agents/test_sub_agents.py"
TURNS = "tests/crash/test_agent_tool_turns.py"
DYING = f"{TURNS}::test_dying_at_any_append_of_either_log_runs_nobody_twice_and_loses_nobody"

RUNS = [
    Mutant(
        "ids.py",
        "quote(name, safe='')",
        "quote(name)",
        f"{IDS}::test_an_id_gives_back_the_path_that_it_was_made_of",
        "a slash in a sub-agent's name is a step of its path",
    ),
    Mutant(
        "ids.py",
        'return "/" not in name or SUB not in name.split("/")',
        'return f"/{SUB}/" not in name',
        f"{IDS}::test_the_prefix_of_an_agents_children_is_that_of_no_one_else",
        "destroying one root destroys another",
    ),
    Mutant(
        "runtime/agent_runtime/sub_agents.py",
        "stored_ids.known(sub_agent_id(self._agent, kind, name))",
        "stored_ids.known(self._agent)",
        f"{CHILDREN}::test_a_turn_asks_a_sub_agent_and_each_has_its_own_conversation",
        "a sub-agent's conversation is taken for its parent's",
    ),
    Mutant(
        "server/subs.py",
        "    if verdict is True:",
        "    if verdict:",
        f"{SUBS}::test_who_is_not_let_through_gets_the_same_verdict_over_http_and_over_the_socket",
        "whoever does not say no lets clients in",
    ),
    Mutant(
        "core/runs.py",
        "return within is not None and within not in state.open and not run.started.is_detached",
        "return within is not None and within not in state.open",
        f"{CORE}::test_a_run_is_to_stop_when_the_turn_that_waits_for_it_has_ended_and_a_detached_one_is_not",
        "what was meant to go on is stopped with its turn",
    ),
    Mutant(
        "core/runs.py",
        "    if run is None or not run.is_open:\n        return []",
        "    if run is None:\n        return []",
        f"{CORE}::test_rows_restore_to_what_the_log_folds_to_and_an_end_for_good_is_the_last",
        "a run ends twice",
    ),
    Mutant(
        "core/runs.py",
        "return Run(kept.started, kept.started_at, kept.ended, kept.ended_at, kept.hook_due)",
        "return Run(kept.started, kept.started_at, kept.ended, kept.ended_at)",
        f"{CORE}::test_rows_restore_to_what_the_log_folds_to_and_an_end_for_good_is_the_last",
        "nobody is told of a run that ended just before the process died",
    ),
    Mutant(
        "runtime/agent_tool_runs/watching.py",
        'return EndRun(run, "error", error=SKIPPED)',
        'return EndRun(run, "completed")',
        f"{TOOLS}::test_a_cleared_sub_agents_run_counts_as_an_error[chat]",
        "a run that never was counts as done",
    ),
    Mutant(
        "runtime/agent_tool_runs/watching.py",
        "if grown != head or (loaded is not None and loaded.reconciler.runs.is_busy):",
        "if grown != head:",
        f"{WATCH}::test_a_sub_agent_that_waits_for_one_of_its_own_is_not_silent",
        "whoever waits for somebody is taken for stuck",
    ),
    Mutant(
        "runtime/agent_tool_runs/watching.py",
        'return RequestId(f"agent-tool:{run}")',
        'import secrets\n\n    return RequestId(f"agent-tool:{run}-{secrets.token_hex(2)}")',
        f"{DYING}[chat-after]",
        "a sub-agent is asked once more after a crash",
    ),
    Mutant(
        "wire/runs.py",
        "return RunFrame(started, chunk.index + 1, event)",
        "return RunFrame(started, chunk.index, event)",
        f"{FRAMES}::test_a_chunk_is_numbered_by_its_index_and_passed_on_as_it_is",
        "the first chunk has the number of the start",
    ),
    Mutant(
        "runtime/agent_tool_runs/following.py",
        "self._cursor = Seq(0)",
        "self._cursor = Seq(5)",
        f"{FEEDS}::test_a_cut_at_every_frame_loses_and_doubles_nothing[chat]",
        "who comes late misses the first words",
    ),
]
