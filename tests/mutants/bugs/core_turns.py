"""Seeded bugs of turns: how they begin, are tried again, end, and what is wanted next."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, before, drop, never, replace, returns

__all__ = ["BUGS"]

DELAYS = "tests/core/test_delays.py"
INVARIANTS = "tests/core/test_invariants.py"
LATE_CALLS = "tests/core/test_late_calls.py"
PURITY = "tests/core/test_purity.py"
TURNS = "tests/core/test_turns.py"

BUGS = [
    Bug(
        "core:_running_turn",
        "I-1",
        replace("$state.open.get", "$state.find"),
        f"{INVARIANTS}::test_a_turn_ends_at_most_once_and_nothing_of_it_follows",
        "a turn can be finished a second time",
    ),
    Bug(
        "core:TRANSITIONS",
        "I-1",
        replace("{HookDone: TurnStatus.ENDED}", "{HookDone: TurnStatus.ENDED, Chunk: TurnStatus.ENDED}"),
        "tests/core/test_transitions.py::test_an_ended_turn_never_changes_its_status_again",
        "chunks may follow the end of their turn",
    ),
    Bug(
        "core:_cancel",
        "I-1",
        always("$turn.status is TurnStatus.RUNNING"),
        f"{TURNS}::test_cancelling_twice_causes_nothing_more",
        "an impatient second click on stop breaks the agent",
    ),
    Bug(
        "core:_running_turn",
        "I-7",
        replace("$turn.attempt != $command.attempt", "$turn.attempt < $command.attempt"),
        f"{INVARIANTS}::test_a_stale_attempt_cannot_speak",
        "a runner that was given up goes on writing",
    ),
    Bug(
        "core:_emit",
        "I-7",
        replace("TurnStatus.ACCEPTED", "TurnStatus.ENDED"),
        f"{TURNS}::test_a_turn_that_has_not_begun_takes_no_chunks",
        "chunks are written before an attempt has begun",
    ),
    Bug(
        "core:_cancel",
        "I-9",
        before("$events.append(CancelRequested($turn.id, ...))", "$turn.reason = 'cancelled'"),
        f"{INVARIANTS}::test_rows_rebuilt_from_the_log_equal_the_rows_written_live",
        "deciding changes the state behind the log's back",
    ),
    Bug(
        "core:_cancel",
        "I-9",
        before("$events.append(CancelRequested($turn.id, ...))", "$turn.reason = 'cancelled'"),
        f"{INVARIANTS}::test_the_state_is_a_fold_of_the_log",
        "the state is more than a fold of the log",
    ),
    Bug(
        "core:_begin",
        "I-9",
        replace("$attempt = Attempt($turn.attempt + 1)", "$attempt = $turn.attempt = Attempt($turn.attempt + 1)"),
        f"{PURITY}::test_neither_decide_nor_wanted_changes_the_state",
        "an attempt is counted although its commit failed",
    ),
    Bug(
        "core:_wanted_turns",
        "I-9",
        replace("$hooks = tuple(sorted($due))", "$hooks = tuple(sorted($due)); $due.clear()"),
        f"{PURITY}::test_neither_decide_nor_wanted_changes_the_state",
        "a hook that was wanted once is not wanted again",
    ),
    Bug(
        "core:_finish",
        "I-10",
        replace("not $turn.fold.is_empty", "not $turn.fold.is_empty and $turn.status is TurnStatus.RUNNING"),
        f"{INVARIANTS}::test_pruning_is_invisible_to_a_reader_at_any_cursor",
        "what a cancelled turn said lives in its chunks only",
    ),
    Bug(
        "core:_why_out_of_attempts",
        "I-12",
        replace("$rules.max_attempts", "$rules.max_attempts + 1000"),
        f"{TURNS}::test_a_turn_with_too_many_attempts_ends_with_a_public_error",
        "a turn that kills its process is tried for ever",
    ),
    Bug(
        "core:_next_turn",
        "I-12",
        drop("$start <= $now"),
        f"{INVARIANTS}::test_from_any_crash_point_every_turn_ends_or_waits_for_a_person",
        "a turn with a start time is never started",
    ),
    Bug(
        "core:_wanted_work",
        "I-12",
        replace("bool($jobs or fibers or ...)", "bool($jobs or ...)"),
        "tests/core/test_fibers.py::test_an_open_fiber_wants_to_run_and_the_restart_scan_finds_it",
        "a fiber that a dead process left is found only when a client comes",
    ),
    Bug(
        "AttemptCounter.count_chunk",
        "I-12",
        replace("min(...)", "1"),
        "tests/core/test_attempts.py::test_progress_does_not_take_back_attempts_that_began_anew",
        "a turn that starts anew each time and dies behind its first step is tried a hundred times",
    ),
    Bug(
        "core:call_inputs",
        "R-2",
        drop("$told += ..."),
        "tests/server/test_late_calls.py::test_a_denial_is_told_again_to_a_client_that_joins_the_continuation",
        "a denied call reads as answered until the continuation ends",
    ),
    Bug(
        "core:_next_turn",
        "R-3",
        replace("$due or islice($questions, 1)", "list(islice($questions, 1)) or $due"),
        "tests/core/test_tool_call_answers.py::test_a_continuation_runs_before_a_question_behind_its_message",
        "a question that follows an approval at once leaves the call approved for ever",
    ),
    Bug(
        "core:_cancel",
        "R-3",
        replace("[$turn for $turn in $turns if ...]", "[]"),
        f"{LATE_CALLS}::test_an_approved_call_stopped_before_it_begins_has_an_error",
        "a call that was stopped runs with the next question",
    ),
    Bug(
        "core:_blocking_turn",
        "R-3",
        replace("next($state.late_calls(), None)", "None"),
        f"{LATE_CALLS}::test_the_next_question_waits_for_the_output_of_a_late_call",
        "the model reads that a call was interrupted while it runs",
    ),
    Bug(
        "core:_nodes_beyond_cap",
        "R-6",
        replace("other is not turn", "other is not None"),
        f"{TURNS}::test_the_cap_is_kept_exactly_once_nothing_is_open",
        "more messages are kept than the cap allows",
    ),
    Bug(
        "core:_clear",
        "R-9",
        drop("*cancelled"),
        "tests/core/test_managed_streams.py::test_clearing_cancels_the_jobs_that_exist_at_that_time",
        "a job fills a stream of a conversation that was cleared",
    ),
    Bug(
        "core:_clear",
        "R-9",
        replace("$state.open.values()", "[turn for turn in $state.chat_turns() if not turn.accepted.deferred]"),
        f"{TURNS}::test_clearing_aborts_the_running_turn_and_skips_the_waiting_ones",
        "a turn of a cleared conversation comes back",
    ),
    Bug(
        "core:_begin",
        "R-17",
        drop("*_closing(...)"),
        f"{TURNS}::test_the_next_attempt_first_closes_what_the_dead_one_left_open",
        "a text part stays open for ever after a crash",
    ),
    Bug(
        "core:_delay",
        "R-17",
        never("$turn.attempt != $command.attempt"),
        f"{DELAYS}::test_a_late_delay_does_not_delay_an_attempt_that_has_begun",
        "an answer that is being given is shown as being recovered to its end",
    ),
    Bug(
        "core:_finish_turn",
        "R-20",
        drop("*put"),
        "tests/agents/streams/test_stream_manager.py::test_a_question_is_answered_chunk_by_chunk_and_the_whole_answer_is_kept",
        "a stream ends well and leaves no message",
    ),
    Bug(
        "core:_next_turn",
        "R-22",
        replace("islice($questions, 1)", "$questions"),
        "tests/core/test_wanted.py::test_a_debounced_question_keeps_its_place",
        "a later question overtakes one that waits",
    ),
    Bug(
        "core:_hook_due",
        "R-28",
        replace("$turn.accepted.kind.is_chat", "$turn.attempt > 0"),
        f"{TURNS}::test_the_hook_is_due_for_every_ending_but_skipped",
        "the hook is not called for turns that ended before they began",
    ),
    Bug(
        "core:_emit",
        "R-37",
        replace("$turn.fold is not None and $turn.fold.is_empty", "$turn.chunks == 0"),
        "tests/core/test_stamps.py::test_an_answer_that_begins_anew_has_the_time_of_that",
        "an answer that begins anew has no time",
    ),
    Bug(
        "core:_finish",
        "a cancelled turn ends aborted",
        replace("TurnEnded($turn, Outcome.ABORTED if $aborted else $outcome, ...)", "TurnEnded($turn, $outcome, ...)"),
        f"{TURNS}::test_whatever_the_runner_says_a_cancelled_turn_ends_aborted",
        "a cancelled turn is called completed",
    ),
    Bug(
        "core:_delay",
        "a delayed attempt is announced once",
        never("$turn.recovers_with == $attempt"),
        f"{DELAYS}::test_a_turn_with_a_delayed_attempt_recovers_until_the_first_chunk",
        "an agent that waits in small steps fills its log",
    ),
    Bug(
        "core:_blocking_turn",
        "a message has one writer",
        never("$writer is not None and $writer is not $turn"),
        f"{LATE_CALLS}::test_a_late_call_waits_while_its_message_is_being_written",
        "two turns write one message, and one of them is lost",
    ),
    Bug(
        "core.replay:_has_output",
        "a replay repeats no part",
        returns("part.get('state') is not None or part.get('approval') is None"),
        "tests/server/test_websocket.py::test_a_continuation_of_an_approved_call_is_replayed_chunk_by_chunk",
        "an answer after an approval has its first parts twice",
    ),
    Bug(
        "core:_finish_without_answer",
        "an observer of the log shows what is stored",
        drop("begun"),
        "tests/parity/test_forgotten.py::test_an_answer_forgotten_while_clients_watch_is_shown_by_none",
        "clients that watch keep showing an answer that was forgotten",
    ),
    Bug(
        "core:_blocking_turn",
        "one chat turn runs at a time",
        replace(
            "$current if $current is not $turn else None",
            "$current if $current is not $turn and $current.attempt > 1 else None",
        ),
        f"{INVARIANTS}::test_at_most_one_chat_turn_runs_and_indexes_have_no_gap",
        "two turns of one agent run side by side",
    ),
]
