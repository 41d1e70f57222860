"""Seeded bugs of the fold of the log, of its rows, and of what may be pruned."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import before, drop, never, replace

__all__ = ["BUGS"]

ANSWERS = "tests/core/test_tool_call_answers.py"
INVARIANTS = "tests/core/test_invariants.py"
RESTORE = "tests/core/test_restore.py"

BUGS = [
    Bug(
        "core:_add_turn",
        "I-6",
        drop("$state.requests[...] = ..."),
        f"{INVARIANTS}::test_restoring_the_rows_gives_the_state_that_folding_the_log_gives",
        "a restarted process forgets which requests it answered",
    ),
    Bug(
        "core:_changed_rows",
        "I-9",
        replace("[*_messages(...), *$rows]", "$rows"),
        f"{ANSWERS}::test_the_draft_shows_the_answer_as_soon_as_it_is_given",
        "an answer given is not in the table",
    ),
    Bug(
        "core:_changed_rows",
        "I-9",
        drop("turn_row(...)"),
        "tests/core/test_agreement.py::test_the_rows_written_bit_by_bit_are_those_that_the_state_implies",
        "a restarted process waits for messages that it has",
    ),
    Bug(
        "core:_changed_rows",
        "I-9",
        replace("[agent_row(...)]", "[]"),
        "tests/core/test_tree.py::test_moving_the_leaf_is_all_that_showing_a_branch_changes",
        "a restarted process shows another branch",
    ),
    Bug(
        "core:TurnProgress",
        "I-9",
        drop("CallAnswered"),
        f"{RESTORE}::test_an_agent_in_the_middle_of_everything_is_loaded_as_it_was",
        "an approval given before a crash is asked for again",
    ),
    Bug(
        "core:_open_turn",
        "I-9",
        replace("TurnStatus($row.status)", "TurnStatus.RUNNING if $row.attempt else TurnStatus.ACCEPTED"),
        f"{RESTORE}::test_an_open_turn_is_loaded_with_its_message_and_status",
        "a turn that was being stopped goes on after a crash",
    ),
    Bug(
        "core:_changed_rows",
        "I-9",
        before("return [job_row(...)]", "if isinstance(event, JobEnded): return []"),
        "tests/crash/test_every_job_append.py"
        "::test_dying_at_any_append_loses_no_work_and_acknowledges_none_twice[0-after]",
        "a job that was acknowledged is done again by the next process",
    ),
    Bug(
        "core:is_redundant",
        "I-10",
        drop("isinstance(...)"),
        f"{INVARIANTS}::test_pruning_is_invisible_to_a_reader_at_any_cursor",
        "retention takes messages and endings along",
    ),
    Bug(
        "core:turn_is_prunable",
        "I-10",
        drop("$kind is not TurnKind.RSM"),
        f"{INVARIANTS}::test_a_bare_stream_is_never_pruned",
        "retention empties bare streams",
    ),
    Bug(
        "core:turn_is_prunable",
        "I-10",
        replace("... and $ended_at is not None and $ended_at < $before", "... and ($ended_at or 0) < $before"),
        "tests/core/test_transcript.py::test_only_chunks_of_old_ended_answers_may_go",
        "retention takes chunks of a turn that still runs",
    ),
    Bug(
        "core:state_is_prunable",
        "I-10",
        replace(
            "$replaced_at is not None and $replaced_at < $before", "$replaced_at is None or $replaced_at < $before"
        ),
        f"{INVARIANTS}::test_pruning_is_invisible_to_a_reader_at_any_cursor",
        "retention takes the last state",
    ),
    Bug(
        "core:_put",
        "I-12",
        replace("deferred=False", "deferred=not ids"),
        "tests/core/test_accept.py::test_a_deferred_turn_with_nothing_new_to_say_begins_all_the_same",
        "a deferred turn without news waits for ever",
    ),
    Bug(
        "TurnState._apply_answer",
        "R-1",
        drop("self.fold.answer(...)"),
        f"{ANSWERS}::test_the_first_answer_to_a_streaming_call_wins",
        "an approval is asked for, given and asked for again",
    ),
    Bug(
        "core:_ended",
        "R-2",
        drop("$turn.fold is not None"),
        f"{ANSWERS}::test_a_cancelled_continuation_keeps_the_draft_of_the_streaming_turn",
        "a question to a person vanishes from the page",
    ),
    Bug(
        "core:_answered",
        "R-3",
        drop("$state.tree.write(...)", which="last"),
        "tests/core/test_late_calls.py::test_a_call_approved_while_another_runs_late_runs_after_it",
        "clients are shown an answered call as open until its turn ends",
    ),
    Bug(
        "core:TurnProgress",
        "R-17",
        drop("AttemptDelayed"),
        "tests/runtime/test_recovery.py::test_a_process_that_dies_while_a_turn_waits_leaves_it_recovering_for_the_next",
        "the next process does not know that an answer is being recovered",
    ),
    Bug(
        "TurnState.apply_chunk",
        "R-17",
        replace("self.recovers_with == $event.attempt", "self.recovers_with"),
        "tests/core/test_delays.py::test_a_turn_with_a_delayed_attempt_recovers_until_the_first_chunk",
        "a late chunk of a failed attempt takes back that the answer is being recovered",
    ),
    Bug(
        "core:_ended",
        "R-28",
        drop("$state.hooks_due.add(...)"),
        f"{INVARIANTS}::test_remembered_paths_equal_walked_ones_and_changes_raise_the_revision",
        "a hook that is due is never called",
    ),
    Bug(
        "core:_check_body",
        "R-31",
        replace("BadMessage", "LookupError"),
        f"{RESTORE}::test_a_message_that_cannot_be_read_is_reported_and_left_out",
        "one damaged message makes the whole agent unusable",
    ),
    Bug(
        "core:_restore_kept",
        "R-35",
        drop("$approvals.append((CallId(...), ...))"),
        "tests/agents/test_principals.py::test_the_approving_principal_is_known_to_the_process_that_runs_the_call",
        "after a restart, a tool does not know which principal approved it",
    ),
    Bug(
        "TurnState.open_fold",
        "a message is the fold of its chunks",
        never("self.extends"),
        f"{INVARIANTS}::test_a_message_ends_as_what_its_chunks_fold_to",
        "a continuation overwrites the message that it extends",
    ),
    Bug(
        "core:_place",
        "no stored message is lost",
        replace("messages", "messages[-1:]"),
        f"{INVARIANTS}::test_no_message_is_lost_unless_a_command_removed_it",
        "of several questions only the last is kept",
    ),
]
