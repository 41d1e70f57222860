"""Seeded bugs of calls that are answered: when an answer goes on, and what runs when it may not (R-3)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["CALLS"]

LATE = "tests/core/test_late_calls.py"
ANSWERS = "tests/core/test_answers.py"
AGENTS = "tests/agents/test_late_calls.py"
HELD = "tests/agents/test_held_answers.py"
DYING = "tests/crash/test_late_calls.py::test_dying_at_any_append_runs_an_approved_call_at_most_once"
SERVER = "tests/server/test_late_calls.py"

CALLS = [
    Mutant(
        "core/wanted.py",
        "for turn in due or islice(questions, 1):",
        "for turn in list(islice(questions, 1)) or due:",
        f"{ANSWERS}::test_a_continuation_goes_before_a_question_that_follows_its_answer_at_once",
        "a question that follows an approval at once leaves the call approved for ever",
    ),
    Mutant(
        "core/continuations.py",
        '        if place.role == "assistant" and (place.shown is not None or _has_begun(state, below)):',
        '        if place.role == "assistant" and place.shown is not None:',
        f"{LATE}::test_a_question_that_failed_without_a_word_makes_an_approval_late",
        "an answer goes on above one that was tried since",
    ),
    Mutant(
        "core/answers.py",
        "        return _late(state, command, node, streaming, rules)\n",
        "        return []\n",
        f"{LATE}::test_an_approval_behind_a_later_answer_accepts_a_run_of_its_own",
        "a call that is approved too late never runs",
    ),
    Mutant(
        "core/answers.py",
        "turn.node == node and turn.status is Status.ACCEPTED for turn in state.late_calls()",
        "turn.node == node for turn in state.late_calls()",
        f"{LATE}::test_a_call_approved_while_another_of_its_message_runs_late_runs_after_it",
        "a call that is approved while another runs is forgotten",
    ),
    Mutant(
        "core/continuations.py",
        "    return [*events, accept_late_calls(state, node, request)]",
        "    return events",
        f"{LATE}::test_a_question_waits_for_the_approved_half_of_a_batch",
        "half of a batch is approved, and a question leaves it behind",
    ),
    Mutant(
        "core/continuations.py",
        "any(map(_is_asked_by_us, _approved_in(state, before, rules))):",
        "_approved_in(state, before, rules):",
        f"{LATE}::test_a_call_that_was_approved_elsewhere_does_not_run_with_a_question",
        "an imported conversation runs old calls when somebody asks something",
    ),
    Mutant(
        "core/decide.py",
        "    events = stop_calls(state, [turn for turn in turns if",
        "    events = stop_calls(state, [turn for turn in turns if False and",
        f"{LATE}::test_an_approved_call_that_is_stopped_before_it_begins_says_so_and_never_runs",
        "a call that was stopped runs with the next question",
    ),
    Mutant(
        "core/decide.py",
        "    if writer is not None and writer is not turn:\n        return writer\n",
        "",
        f"{LATE}::test_a_late_call_waits_while_its_message_is_being_written",
        "two turns write one message, and one of them is lost",
    ),
    Mutant(
        "core/decide.py",
        "    return next(state.late_calls(), None)\n",
        "    return None\n",
        f"{LATE}::test_the_next_question_waits_for_a_late_call_so_that_the_model_reads_its_output",
        "the model reads that a call was interrupted while it runs",
    ),
    Mutant(
        "core/evolve.py",
        "        if settled is not None:\n            state.tree.write(event.node, settled.encode())\n\n",
        "\n",
        f"{LATE}::test_a_call_approved_while_another_of_its_message_runs_late_runs_after_it",
        "clients are shown an answered call as open until its turn ends",
    ),
    Mutant(
        "runtime/reconciler.py",
        "        for wanted_turn in (work.run, work.calls):",
        "        for wanted_turn in (work.run or work.calls,):",
        f"{AGENTS}::test_an_approval_while_the_next_answer_streams_runs_beside_it[AIChatAgent-queue]",
        "an approved call waits for an answer that has nothing to do with it",
    ),
    Mutant(
        "runtime/actor.py",
        "                if type(begun[-1]) is AttemptStarted:  # what was wanted is what runs now",
        "                if True:",
        f"{AGENTS}::test_a_question_runs_what_was_approved_without_going_on[AIChatAgent]",
        "a question runs before the calls that it has to wait for",
    ),
    Mutant(
        "agents/steps.py",
        'approved") is True and not is_final(part):',
        'approved") is True and part["state"] == "approval-responded":',
        f"{AGENTS}::test_a_late_call_cut_off_in_its_progress_comes_to_an_end[AIChatAgent-may run twice]",
        "a call that may run twice is given up because it died in its progress",
    ),
    Mutant(
        "agents/steps.py",
        "all(map(is_final, ours)) and not await self.box.call.is_held()",
        "all(map(is_final, ours))",
        f"{HELD}::test_without_auto_continue_the_answer_ends_with_its_step[AIChatAgent-call-result]",
        "autoContinue false is ignored while the step runs",
    ),
    Mutant(
        "agents/steps.py",
        "is_waiting(message)) or await self.box.call.is_held():",
        "is_waiting(message)):",
        f"{HELD}::test_a_later_attempt_does_not_go_on_either[AIChatAgent]",
        "autoContinue false is forgotten with the process",
    ),
    Mutant(
        "core/continuations.py",
        "turn.fold is None or any(each.node == turn.node for each in waiting_continuations(state)):",
        "turn.fold is None:",
        f"{ANSWERS}::test_an_answer_that_goes_on_outweighs_one_that_does_not",
        "one answer without a wish to go on holds all others up",
    ),
    Mutant(
        "wire/chat.py",
        "            return self._updated(event.node)  # late calls",
        "            return []  # late calls",
        f"{SERVER}::test_a_late_call_is_told_as_an_updated_message_and_as_nothing_else[second]",
        "nobody sees what became of a late call before a reload",
    ),
    Mutant(
        "core/replay.py",
        "        if call in denied:\n",
        "        if False:\n",
        f"{SERVER}::test_a_denial_is_told_again_to_a_client_that_joins_the_continuation",
        "a denied call reads as answered until the continuation ends",
    ),
    Mutant(
        "server/posted.py",
        "        if not is_last or (has_answers and node is not None and not may_continue(state, node)):",
        "        if not is_last:",
        f"{SERVER}::test_a_word_posted_by_a_page_that_has_missed_the_next_answer_makes_no_branch[False]",
        "a late denial over HTTP branches the conversation",
    ),
]
