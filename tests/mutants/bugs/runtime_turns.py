"""Seeded bugs of what runs: turns, jobs, fibers, sub-agents."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, both, drop, never, replace, returns

__all__ = ["BUGS"]

FIBERS = "tests/agents/test_fibers.py"
JOB_RUNNER = "tests/runtime/test_job_runner.py"
LIFETIMES = "tests/runtime/test_lifetimes.py"
PRINCIPALS = "tests/agents/test_principals.py"
RECOVERY = "tests/runtime/test_recovery.py"
TURNS = "tests/runtime/test_turns.py"

BUGS = [
    Bug(
        "runtime:request_of",
        "I-6",
        replace("RequestId(...)", "RequestId(f'agent-tool:{run}-{__import__(\"os\").urandom(2).hex()}')"),
        "tests/crash/test_agent_tool_turns.py"
        "::test_dying_at_any_append_of_either_log_runs_each_sub_agent_once[chat-after]",
        "a sub-agent is asked once more after a crash",
    ),
    Bug(
        "FiberSupervisor._hand_over",
        "I-12",
        replace("await self._actor.insist(RecoverFiber(...))", "[FiberStarted(fiber, '', 2)]"),
        f"{FIBERS}::test_a_fiber_that_ends_every_process_is_set_aside",
        "an attempt of a fiber is not in the log before it is made",
    ),
    Bug(
        "JobSupervisor._done",
        "I-12",
        replace("self._look_at", "lambda at: None"),
        f"{JOB_RUNNER}::test_a_run_that_breaks_in_our_own_code_is_looked_at_again_by_time",
        "a job whose run broke waits for the next commit",
    ),
    Bug(
        "TurnSupervisor.reconcile",
        "R-3",
        replace("($work.run, $work.calls)", "($work.run or $work.calls,)"),
        "tests/agents/test_late_calls.py"
        "::test_an_approval_while_the_next_answer_streams_runs_beside_it[AIChatAgent-queue]",
        "an approved call waits for an answer that has nothing to do with it",
    ),
    Bug(
        "TurnRunner._delay",
        "R-17",
        drop("self._actor.insist(...)"),
        f"{RECOVERY}::test_a_process_that_dies_while_a_turn_waits_leaves_it_recovering_for_the_next",
        "clients do not know that an answer is being recovered until it goes on",
    ),
    Bug(
        "TurnRunner._recovers",
        "R-17",
        both(drop("self._finish(..., Outcome.COMPLETED)"), replace("return None", "return False", which="first")),
        f"{RECOVERY}::test_an_answer_that_was_said_to_its_end_is_only_ended",
        "an answer that was complete when the process died is given twice",
    ),
    Bug(
        "RunFollower.__init__",
        "R-18",
        replace("Seq(0)", "Seq(5)"),
        "tests/server/test_agent_tool_feeds.py::test_a_cut_at_every_frame_loses_and_doubles_nothing[chat]",
        "a client that comes late misses the first chunks",
    ),
    Bug(
        "TurnSupervisor._may_begin",
        "R-19",
        always("$phase is ShutdownPhase.SERVING"),
        f"{LIFETIMES}::test_shutdown_lets_running_turns_finish_and_starts_no_other",
        "a server that shuts down starts new turns",
    ),
    Bug(
        "TurnRunner._pump",
        "R-26",
        drop("await asyncio.sleep(...)"),
        f"{TURNS}::test_an_answer_that_never_waits_does_not_block_others",
        "an answer out of a cache stops all other conversations",
    ),
    Bug(
        "TurnSupervisor.is_inherited",
        "R-28",
        returns("False"),
        f"{LIFETIMES}::test_a_response_hook_that_was_cut_off_is_called_again_as_recovered",
        "a hook that is called again does not know that it is",
    ),
    Bug(
        "runtime:reconcile_declared",
        "R-33",
        drop("not any(...)"),
        "tests/agents/test_schedules.py"
        "::test_a_class_that_declares_nothing_any_more_cancels_what_it_declared_and_nothing_else",
        "the last schedule that a class declared is never cancelled",
    ),
    Bug(
        "TurnRunner.run",
        "R-35",
        replace("self._start.principal", "None"),
        f"{PRINCIPALS}::test_a_later_attempt_works_for_the_same",
        "an answer's own code works for no principal",
    ),
    Bug(
        "JobRun._call",
        "R-35",
        replace("$added.principal", "None"),
        f"{PRINCIPALS}::test_a_job_has_the_principal_that_queued_it_also_in_the_next_process",
        "a job works for no principal",
    ),
    Bug(
        "JobSupervisor.retire",
        "a cancelled job stops",
        never("$job not in $open_jobs and (not $run.is_ending)"),
        f"{JOB_RUNNER}::test_cancelling_a_schedule_stops_the_run_that_it_has",
        "a cancelled job goes on running",
    ),
    Bug(
        "FiberSupervisor.start",
        "a fiber ends exactly once",
        drop("$recovery.is_adopted = True"),
        f"{FIBERS}::test_a_fiber_is_handed_back_with_its_checkpoint_and_goes_on_under_its_id[start_it]",
        "a fiber that was taken up ends as interrupted",
    ),
    Bug(
        "FiberRun.result",
        "a fiber outlives its waiters",
        replace("asyncio.shield($task)", "$task"),
        f"{FIBERS}::test_a_fiber_continues_when_its_waiter_is_cancelled",
        "a fiber ends with the task that waits for it",
    ),
    Bug(
        "_RunWatcher._end_of",
        "a run ends as its turn does",
        replace("EndRun($run, 'error', error=SKIPPED)", "EndRun($run, 'completed')"),
        "tests/agents/agent_tools/test_runs.py::test_a_cleared_sub_agents_run_counts_as_an_error[chat]",
        "a run that never began counts as done",
    ),
    Bug(
        "Reconciler.working",
        "a shutdown waits for no approval",
        drop("self._errands.waits"),
        "tests/agents/handles/test_lifetimes.py::test_an_orderly_stop_lets_calls_finish_and_does_not_wait_for_waits",
        "a shutdown waits until no turn waits for an approval any more",
    ),
    Bug(
        "TurnSupervisor._cancel",
        "a stopped answer may clean up, for a while",
        replace("$now - $runner.cancelled_at >= LET_GO", "$now"),
        f"{TURNS}::test_what_an_answer_does_at_its_end_is_not_cut_off_by_a_stop_nor_by_what_comes_after_it",
        "an answer that closes a connection when it is stopped is stopped again meanwhile",
    ),
    Bug(
        "TurnSupervisor._cancel",
        "a stopped answer may clean up, for a while",
        drop("$now - $runner.cancelled_at >= LET_GO"),
        f"{TURNS}::test_an_answer_that_goes_on_talking_after_a_stop_is_told_again_and_then_cut_off",
        "an answer that ignores a stop stays until the server ends",
    ),
    Bug(
        "TurnRunner._pump",
        "a stopped answer may clean up, for a while",
        replace("self.is_cancelled", "self.is_cancelled and (not left)"),
        f"{TURNS}::test_an_answer_that_goes_on_talking_after_a_stop_is_told_again_and_then_cut_off",
        "an answer without readers takes half of the processor for ever",
    ),
    Bug(
        "JobRun._run",
        "an orderly stop is no failure",
        drop("self._stopped = EndJob(...)"),
        f"{JOB_RUNNER}::test_a_run_whose_beginning_is_being_committed_at_a_shutdown_is_no_failure_of_the_job",
        "a deployment at the moment a job begins counts as its failure",
    ),
    Bug(
        "TurnSupervisor.interrupt",
        "an orderly stop is no failure",
        never("self._actor.begun is not None"),
        "tests/runtime/test_shutdown.py"
        "::test_an_attempt_whose_beginning_is_being_committed_at_the_interruption_does_not_count[0]",
        "a deployment at the moment a turn begins counts as a crash",
    ),
    Bug(
        "_RunWatcher._silence",
        "only silence counts as silence",
        drop("$loaded is not None and $loaded.reconciler.runs.is_busy"),
        "tests/runtime/test_agent_tool_runs.py::test_a_sub_agent_that_waits_for_one_of_its_own_is_not_silent",
        "a sub-agent that waits for its own sub-agent counts as stuck",
    ),
    Bug(
        "_RunWatcher._run",
        "spans are nested as calls are",
        drop("run_in_trace(...)"),
        "tests/server/test_observe_exporters.py::test_a_sub_agents_spans_lie_inside_the_call_that_asks_it",
        "a sub-agent's span begins a trace of its own",
    ),
]
