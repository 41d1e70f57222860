"""Seeded bugs about handles: which agent a call reaches, what it may share, and when its result is given out (R-36)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["HANDLES"]

VALUES = "tests/agents/test_handles.py"
LIVES = "tests/agents/test_handle_lifetimes.py"
KIT = "tests/testing/test_local.py"

HANDLES = [
    Mutant(
        "runtime/method_calls.py",
        "            await self._loaded.pending_states.committed()  # the result may tell of states that are not yet\n",
        "",
        f"{VALUES}::test_a_result_is_given_out_when_its_states_are_committed",
        "a caller knows of a state that a crash takes back",
    ),
    Mutant(
        "runtime/method_calls.py",
        "                    was_lost = call.is_repeatable\n",
        "",
        f"{LIVES}::test_a_question_is_answered_though_its_agent_is_lost_meanwhile",
        "a question fails because the store had to be tried twice",
    ),
    Mutant(
        "runtime/method_calls.py",
        "                    if not await self._offer(item):\n                        break\n",
        "                    await self._offer(item)\n",
        f"{VALUES}::test_a_reader_that_leaves_closes_the_generator",
        "a generator goes on for ever though nobody reads it",
    ),
    Mutant(
        "runtime/method_calls.py",
        "    context = own_context(directory, call.starting)\n",
        "    context = own_context(directory, frozenset())\n",
        f"{LIVES}::test_agents_that_call_each_other_and_themselves_do_not_wait_for_ever",
        "an agent that another one uses as it starts waits for its own start",
    ),
    Mutant(
        "runtime/reconciler.py",
        "if runner.is_paused} | self._waits\n",
        "if runner.is_paused}\n",
        f"{LIVES}::test_an_orderly_stop_lets_calls_finish_and_does_not_wait_for_waits",
        "a shutdown waits until nobody waits for an approval any more",
    ),
    Mutant(
        "runtime/call_errors.py",
        '        return msgspec.json.encode(_Failure(CallFailed.code, f"The call of {method} failed.", {}))\n',
        "        return msgspec.json.encode(_Failure(CallFailed.code, str(exc), {}))\n",
        f"{VALUES}::test_errors_of_ours_keep_class_and_text_and_others_stay_in_the_log",
        "the text of any exception reaches callers, who may show it",
    ),
    Mutant(
        "agents/calls.py",
        "    is_waited_for(call.answering)\n",
        "",
        f"{LIVES}::test_a_turn_that_would_wait_for_itself_through_another_agent_is_refused",
        "a turn waits for one of the same agent, which waits for it",
    ),
    Mutant(
        "agents/calls.py",
        "    act_for(call.principal)\n",
        "",
        f"{LIVES}::test_a_call_works_for_whom_its_caller_works",
        "what one agent has another do is done in nobody's name",
    ),
    Mutant(
        "agents/chat_handle.py",
        "request_id if request_id is not None else next_request_of_job()",
        "request_id",
        f"{LIVES}::test_a_job_that_runs_again_asks_another_agent_once",
        "a job that is run again asks another agent twice",
    ),
    Mutant(
        "agents/state.py",
        "        states = agent._runtime.state  # raises if it was destroyed meanwhile\n",
        "",
        f"{LIVES}::test_a_call_of_an_agent_that_is_destroyed_meanwhile_says_so",
        "a state of a destroyed agent becomes that of the new one",
    ),
    Mutant(
        "testing/local.py",
        "        self.app._directory.fresh_context = self._context.copy  # agents are ours whoever loads them\n",
        "",
        f"{KIT}::test_a_kill_ends_agents_whoever_loaded_them",
        "an agent that the test loaded outlives the server that was killed",
    ),
]
