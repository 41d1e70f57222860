"""Seeded bugs of tools and of the steps of a turn."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, never, replace

__all__ = ["BUGS"]

HELD_ANSWERS = "tests/agents/test_held_answers.py"
STEPS = "tests/agents/tools/test_steps.py"
TOOLS = "tests/agents/tools/test_definition.py"
TOOL_THREADS = "tests/agents/tools/test_threads.py"

BUGS = [
    Bug(
        "agents:find_callable",
        "I-14",
        never("$is_read_only and (not getattr(...))"),
        "tests/server/test_read_only.py::test_a_read_only_client_calls_only_what_is_marked_for_it",
        "a client that may only watch calls every method",
    ),
    Bug(
        "agents:check_options",
        "R-1",
        never("$options['client'] and $approval"),
        f"{TOOLS}::test_a_tool_of_the_page_that_needs_approval_is_refused",
        "a tool that needs approval runs without one",
    ),
    Bug(
        "ToolRunner.run_approved",
        "R-3",
        replace("not is_final($part)", "$part['state'] == 'approval-responded'"),
        "tests/agents/test_late_calls.py"
        "::test_a_late_call_cut_off_in_its_progress_comes_to_an_end[AIChatAgent-may run twice]",
        "a call that may run twice is given up because it died in its progress",
    ),
    Bug(
        "Steps.goes_on",
        "R-3",
        drop("not await self.tool_runner.call.is_held()"),
        f"{HELD_ANSWERS}::test_without_auto_continue_the_answer_ends_with_its_step[AIChatAgent-call-result]",
        "autoContinue false is ignored while the step runs",
    ),
    Bug(
        "Steps._each",
        "R-3",
        drop("await self.tool_runner.call.is_held()"),
        f"{HELD_ANSWERS}::test_a_later_attempt_does_not_go_on_either[AIChatAgent]",
        "autoContinue false is forgotten with the process",
    ),
    Bug(
        "_AnswerLoop.chunks",
        "R-17",
        drop("not await self._is_complete()"),
        "tests/agents/think/test_usage.py::test_a_process_that_died_behind_the_last_word_asks_nothing_again",
        "the loop goes on with an answer that was complete",
    ),
    Bug(
        "Steps._settle_left",
        "R-17",
        replace("$part.get('providerExecuted')", "self.tool_runner.is_answered_elsewhere($part)"),
        "tests/testing/test_parity.py::test_a_call_of_the_pages_tool_that_a_death_cut_off_is_settled",
        "half a call of the page's tool waits for ever",
    ),
    Bug(
        "Tool._failed",
        "R-29",
        always("self.show_errors_to_model"),
        f"{TOOLS}::test_the_text_of_an_exception_reaches_neither_model_nor_clients",
        "a model reads the text of any exception",
    ),
    Bug(
        "agents:_called",
        "R-29",
        replace(
            "$arguments = $made.args_validator.validate_python(...)",
            "$arguments = $made.args_validator.validate_python(...)\n"
            "await toolset.call_tool(name, $arguments, context, $made)",
        ),
        "tests/agents/think/test_toolsets.py::test_the_text_that_a_toolsets_tool_raised_reaches_neither_model_nor_page",
        "the text of a validation error inside a toolset's tool reaches the model",
    ),
    Bug(
        "Steps._each",
        "an effect happens at most once",
        replace("is_waiting($message)", "any(map(is_open_approval, tool_parts($message)))"),
        "tests/crash/test_tool_turns.py"
        "::test_dying_at_any_append_of_a_tool_turn_does_nothing_twice[AIChatAgent-early-before]",
        "the model reads that an approved call was interrupted, and then the call is made",
    ),
    Bug(
        "ToolRunner.settle",
        "an effect happens at most once",
        never("not await self.call.start_call(...)"),
        f"{STEPS}::test_a_call_is_in_the_log_before_its_effect_and_its_result_after_it",
        "a tool runs before the log says that it will",
    ),
    Bug(
        "ToolThreads._next",
        "an effect happens at most once",
        replace("$work.call.has_begun = True", "$work.call.has_begun = False"),
        f"{TOOL_THREADS}::test_the_model_is_told_that_the_result_of_a_plain_tool_is_unknown",
        "the model pays twice, because it reads that a call failed which still runs",
    ),
    Bug(
        "ToolThreads._forget_cancelled",
        "memory is bounded",
        drop("self._waiting.pop(...)"),
        f"{TOOL_THREADS}::test_a_call_that_timed_out_before_it_had_a_thread_is_never_run",
        "calls that timed out while they waited stay in memory for ever",
    ),
    Bug(
        "Step._chunks",
        "tools end with their attempt",
        replace("try:\n    await $items.aclose()\nfinally:\n    ...", "await $items.aclose()\n..."),
        f"{STEPS}::test_leaving_a_step_in_the_middle_ends_it_and_its_calls",
        "a model stream that cannot be closed leaves its tools running",
    ),
    Bug(
        "Turn._aclose",
        "tools end with their attempt",
        drop("self._tool_runner.aclose()"),
        f"{STEPS}::test_leaving_a_step_in_the_middle_ends_it_and_its_calls",
        "tools of a turn that has failed run on",
    ),
    Bug(
        "agents:_in_thread",
        "tools that hang delay only themselves",
        replace("$loop.run_in_executor($threads, ...)", "$loop.run_in_executor(None, ...)"),
        f"{TOOL_THREADS}::test_hanging_tools_delay_no_other_threads_and_a_full_pool_is_logged_once",
        "tools that hang take the threads of all others",
    ),
    Bug(
        "Turn.__init__",
        "what is over leaves no garbage",
        replace("self._calls_made = 0", "self._calls_made = 0; _ = self._tool_runner"),
        "tests/server/test_garbage.py::test_a_turn_and_a_socket_that_are_over_leave_nothing_for_the_collector",
        "every turn that ends waits for the garbage collector, with all that it held",
    ),
]
