"""Seeded bugs of the rules of jobs, fibers and sub-agent runs."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, replace

__all__ = ["BUGS"]

FIBERS = "tests/core/test_fibers.py"
JOBS = "tests/agents/test_jobs.py"
RUNS = "tests/core/test_runs.py"
SCHEDULES = "tests/agents/test_schedules.py"
USAGE = "tests/core/test_usage.py"

BUGS = [
    Bug(
        "core:restore_fiber",
        "I-9",
        replace(
            "$fiber.outcome, $fiber.detail, $fiber.ended_at = ($kept.outcome, $kept.detail, $kept.ended_at)",
            "$fiber.outcome, $fiber.detail = ($kept.outcome, $kept.detail)",
        ),
        f"{FIBERS}::test_rows_restore_to_what_the_log_folds_to_and_nothing_follows_an_end",
        "a loaded fiber is not the one that was stored",
    ),
    Bug(
        "core:start_job",
        "I-12",
        replace("$job.added.max_attempts", "$job.added.max_attempts + 1000"),
        f"{JOBS}::test_a_job_that_kills_every_process_is_set_aside",
        "a job that kills the process makes it crash for ever",
    ),
    Bug(
        "core:recover_fiber",
        "I-12",
        replace("MAX_ATTEMPTS", "MAX_ATTEMPTS + 1000"),
        "tests/agents/test_fibers.py::test_a_fiber_that_ends_every_process_is_set_aside",
        "a fiber that kills the process makes it crash for ever",
    ),
    Bug(
        "core:restore_run",
        "R-28",
        drop("$kept.hook_due"),
        f"{RUNS}::test_rows_restore_to_the_fold_of_the_log_and_a_final_end_is_last",
        "the hook is not called for a run that ended just before the process died",
    ),
    Bug(
        "core:_contents",
        "R-33",
        drop("order=..."),
        "tests/core/test_jobs.py::test_a_repeating_job_that_says_the_same_is_added_once",
        "a payload whose members come in another order is scheduled twice",
    ),
    Bug(
        "core:same_job",
        "R-33",
        always("$job.added.job != $command.within"),
        f"{SCHEDULES}::test_a_method_that_schedules_its_own_key_again_goes_on_for_ever",
        "a method that schedules itself again runs once and never again",
    ),
    Bug(
        "core:declare_jobs",
        "R-33",
        drop("due=..."),
        f"{SCHEDULES}::test_code_that_scheduled_the_same_before_is_taken_over_at_its_time",
        "a schedule that a class begins to declare loses its time",
    ),
    Bug(
        "core:_is_orphaned",
        "a detached run outlives its turn",
        drop("not $run.started.is_detached"),
        f"{RUNS}::test_a_run_stops_with_its_turn_unless_it_is_detached",
        "a detached run is stopped with its turn",
    ),
    Bug(
        "core:end_fiber",
        "a fiber ends exactly once",
        drop("$fiber.outcome is not None"),
        f"{FIBERS}::test_rows_restore_to_what_the_log_folds_to_and_nothing_follows_an_end",
        "a fiber ends twice",
    ),
    Bug(
        "core:evolve_job",
        "a retried job asks again",
        drop("$job.ended = $event.run"),
        "tests/server/test_server_driven.py::test_a_job_that_failed_and_is_tried_again_asks_again",
        "a job that is tried again is given the answer that made it fail",
    ),
    Bug(
        "core:end_run",
        "a run ends exactly once",
        drop("not $run.is_open"),
        f"{RUNS}::test_rows_restore_to_the_fold_of_the_log_and_a_final_end_is_last",
        "a run ends twice",
    ),
    Bug(
        "core:_run_to_remove",
        "a turn counts the usage of its own sub-agents, once",
        drop("not _is_of_open_turn(...)"),
        f"{USAGE}::test_no_run_of_an_open_turn_is_forgotten_before_it_was_counted",
        "the tokens of a turn's first sub-agents are lost when it has many",
    ),
    Bug(
        "core:usage_of_turn",
        "a turn counts the usage of its own sub-agents, once",
        drop("$run.started.within == $turn.id"),
        f"{USAGE}::test_runs_of_other_turns_and_of_none_do_not_count",
        "the tokens of a sub-agent are counted with every later turn",
    ),
    Bug(
        "core:evolve_job",
        "an orderly stop is no failure",
        drop("$job.attempts -= 1"),
        f"{JOBS}::test_a_stop_in_good_order_is_no_failure_of_the_job",
        "every deployment counts as a failure of the jobs that it stops",
    ),
    Bug(
        "core:evolve_fiber",
        "memory is bounded",
        drop("$state.fibers.pop(...)"),
        f"{FIBERS}::test_only_the_newest_ends_are_remembered_and_open_fibers_always",
        "ends of fibers pile up for ever",
    ),
    Bug(
        "core:due_jobs",
        "queued jobs run in order",
        drop("continue"),
        f"{JOBS}::test_queued_jobs_run_one_after_the_other_in_order",
        "queued jobs overtake each other",
    ),
]
