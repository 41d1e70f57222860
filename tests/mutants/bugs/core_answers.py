"""Seeded bugs of answered calls: when an answer goes on, and what runs late."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, both, drop, never, replace, returns

__all__ = ["BUGS"]

ANSWERS = "tests/core/test_tool_call_answers.py"
CLIENT_MESSAGES = "tests/core/test_client_messages.py"
LATE_CALLS = "tests/core/test_late_calls.py"
PRINCIPALS = "tests/core/test_principals.py"
WAITING = "tests/core/test_waiting_approvals.py"

BUGS = [
    Bug(
        "core:answer_call",
        "R-1",
        drop("$turn.chunks"),
        f"{ANSWERS}::test_a_result_for_a_streaming_call_is_an_answer_and_a_chunk_in_one_batch",
        "two chunks of a request have the same index",
    ),
    Bug(
        "core:_has_open_call",
        "R-1",
        both(drop("tool_name(...) in $rules.server_tools"), drop("$asked == own_approval_id(...)")),
        "tests/agents/tools/test_steps.py::test_a_client_tool_is_left_to_the_page_and_a_forged_result_of_ours_is_refused",
        "a client can invent the result of a server's tool",
    ),
    Bug(
        "core:_stored_call",
        "R-1",
        drop("$place.role != 'assistant'"),
        f"{CLIENT_MESSAGES}::test_a_call_in_a_user_message_takes_no_answer",
        "a client runs any tool with an input of its own",
    ),
    Bug(
        "core:_why_skipped",
        "R-1",
        never("$state.nodes[$turn.node].role != 'assistant'"),
        f"{CLIENT_MESSAGES}::test_a_waiting_continuation_of_a_user_message_is_skipped",
        "a user's message becomes an assistant's",
    ),
    Bug(
        "core:waiting_continuations",
        "R-3",
        drop("$turn.status is TurnStatus.ACCEPTED"),
        f"{ANSWERS}::test_a_continuation_that_has_begun_is_followed_by_another",
        "an answer during a continuation is never gone on with",
    ),
    Bug(
        "core:continuation_is_due",
        "R-3",
        always("$body is None or not is_mid_batch(...)"),
        f"{ANSWERS}::test_the_continuation_of_a_whole_batch_waits_for_the_whole_batch",
        "the model goes on with half of its results",
    ),
    Bug(
        "core:may_continue",
        "R-3",
        drop("_has_begun(...)"),
        f"{LATE_CALLS}::test_an_approval_is_late_after_a_question_that_failed_without_a_message",
        "an answer goes on above one that was tried since",
    ),
    Bug(
        "core:_continuation_events",
        "R-3",
        replace("_late_call_turn(...)", "[]"),
        f"{LATE_CALLS}::test_an_approval_behind_a_later_answer_accepts_a_run_of_its_own",
        "a call that is approved too late never runs",
    ),
    Bug(
        "core:_late_call_turn",
        "R-3",
        drop("$turn.status is TurnStatus.ACCEPTED"),
        f"{LATE_CALLS}::test_a_call_approved_while_another_runs_late_runs_after_it",
        "a call that is approved while another runs is forgotten",
    ),
    Bug(
        "core:events_before_first_attempt",
        "R-3",
        replace("[*$events, accept_late_calls(...)]", "$events"),
        f"{LATE_CALLS}::test_a_question_waits_for_the_approved_half_of_a_batch",
        "half of a batch is approved, and a question leaves it behind",
    ),
    Bug(
        "core:events_before_first_attempt",
        "R-3",
        replace("any(map(_is_asked_by_us, $approved))", "$approved"),
        f"{LATE_CALLS}::test_a_call_that_was_approved_elsewhere_does_not_run_with_a_question",
        "an imported conversation runs old calls with the next question",
    ),
    Bug(
        "core:is_held",
        "R-3",
        drop("any(... for $each in waiting_continuations(...))"),
        f"{ANSWERS}::test_an_answer_that_goes_on_outweighs_one_that_does_not",
        "one answer with autoContinue false holds all others up",
    ),
    Bug(
        "core:_continuation_events",
        "R-35",
        replace("principal_of_answer(...)", "command.principal"),
        f"{PRINCIPALS}::test_a_continuation_has_the_principal_of_the_question",
        "an answer goes on with the rights of the principal that approved one of its calls",
    ),
    Bug(
        "core:accept_late_calls",
        "R-35",
        replace("principal_of_answer(...)", "None"),
        f"{PRINCIPALS}::test_late_calls_have_the_principal_of_the_question",
        "a late call does not know for which principal it runs",
    ),
    Bug(
        "core:start_call",
        "an effect happens at most once",
        drop("not $command.is_idempotent"),
        "tests/crash/test_tool_turns.py"
        "::test_dying_at_any_append_of_a_tool_turn_does_nothing_twice[Think-one call-before]",
        "a tool's effect happens again after a crash",
    ),
    Bug(
        "core:request_to_settle",
        "R-39",
        drop("$asked not in $state.waiting.values()"),
        f"{WAITING}::test_an_approval_that_was_allowed_for_another_request_changes_nothing",
        "a person approves other arguments than it was shown",
    ),
    Bug(
        "core:request_to_settle",
        "R-39",
        always("$asked.expires_at is None or $now < $asked.expires_at"),
        f"{WAITING}::test_an_answer_after_the_time_is_over_is_left_to_the_expiry",
        "a call is approved after its time, if nobody has noticed yet that it is over",
    ),
    Bug(
        "core:shown_request",
        "R-39",
        never("len($found) > 1"),
        f"{WAITING}::test_an_answer_that_names_no_request_is_for_the_call_that_is_shown",
        "a page that shows a small payment approves a large one on a hidden branch",
    ),
    Bug(
        "core:_works_as_tool",
        "R-39",
        returns("False"),
        f"{WAITING}::test_a_call_of_an_agent_that_works_as_a_tool_is_denied_and_never_approved",
        "a tool runs though its parent was told that it cannot",
    ),
    Bug(
        "core:_stored_call",
        "R-39",
        never("$asked is not None and $asked.node != $node"),
        f"{WAITING}::test_calls_of_two_branches_with_one_id_wait_and_are_answered_one_by_one",
        "an approval runs another call that has the same id",
    ),
    Bug(
        "core:copied_requests",
        "R-39",
        replace("$each.approvers", "[]"),
        f"{WAITING}::test_a_copy_asks_the_same_people_until_the_same_time",
        "a customer forks its conversation, and approves its own refund in the copy",
    ),
]
