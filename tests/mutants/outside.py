"""Seeded bugs of what stands outside the agents: answers over plain HTTP, the test kit, those who watch."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["OUTSIDE"]

POSTED = "tests/server/test_posted.py"
SCRIPT = "tests/testing/test_script.py"
PARITY = "tests/testing/test_parity.py"
OBSERVE = "tests/server/test_observe.py"
EXPORTERS = "tests/server/test_observe_exporters.py"
ACCESS = "tests/server/test_access.py"
DOORS = "tests/server/test_every_door.py"
READ_ONLY = "tests/server/test_read_only.py"
THREADS = "tests/agents/test_tool_threads.py"

OUTSIDE = [
    Mutant(
        "server/posted.py",
        "auto_continue=who.goes_on",
        "auto_continue=True",
        f"{POSTED}::test_an_answer_that_comes_with_a_new_question_is_taken_and_the_question_is_answered",
        "an answer that comes with a question starts a turn besides the question's",
    ),
    Mutant(
        "server/posted.py",
        "    chunks = [chunk for part in tool_parts(copy) for chunk in _corrected(part, stored)]\n",
        "    chunks: list[Chunk] = []\n",
        f"{POSTED}::test_the_first_answer_wins_and_who_was_slower_is_told_which",
        "a page that was slower shows its own answer for ever",
    ),
    Mutant(
        "server/posted.py",
        "open_turn_frames(directory, sharing, agent, standing.running, BEFORE_ALL)",
        "open_turn_frames(directory, sharing, agent, standing.running, None)",
        f"{POSTED}::test_who_answers_while_the_continuation_runs_follows_it_from_its_first_chunk",
        "who joins a continuation by posting loses its beginning",
    ),
    Mutant(
        "server/posted.py",
        "        if not is_behind or ended is None:\n",
        "        if True:\n",
        f"{POSTED}::test_the_first_answer_wins_and_who_was_slower_is_told_which",
        "a page that was slower makes the model answer once more",
    ),
    Mutant(
        "agents/steps.py",
        'if part.get("state") == "input-streaming" and not part.get("providerExecuted"):',
        'if part.get("state") == "input-streaming" and not self.box.is_answered_elsewhere(part):',
        f"{PARITY}::test_a_call_of_the_pages_tool_that_a_death_cut_off_is_settled",
        "half a call of the page's tool waits for ever",
    ),
    Mutant(
        "testing/script.py",
        "rest, self._text = item[self._text :], max(0, self._text - len(item))",
        "rest, self._text = item[self._text :], 0",
        f"{SCRIPT}::test_wherever_it_is_cut_off_the_rest_is_said_and_nothing_twice",
        "a scripted model repeats itself",
    ),
    Mutant(
        "testing/script.py",
        "                return None if item.id in self._calls else item\n",
        "                return item\n",
        f"{SCRIPT}::test_wherever_it_is_cut_off_the_rest_is_said_and_nothing_twice",
        "a scripted model calls twice",
    ),
    Mutant(
        "observe/dispatcher.py",
        "        if len(self._waiting) >= self._room:\n",
        "        if False:\n",
        f"{OBSERVE}::test_what_a_slow_hook_has_no_room_for_is_counted_and_said_once",
        "a slow hook fills the memory",
    ),
    Mutant(
        "observe/dispatcher.py",
        '        append = getattr(store.append, "untapped", store.append)\n',
        "        append = store.append\n",
        f"{OBSERVE}::test_nobody_who_watches_means_that_the_log_is_left_alone",
        "a store that is opened again tells everything twice",
    ),
    Mutant(
        "server/limits.py",
        "            if level >= full:",
        "            if level > full:",
        "tests/server/test_limits.py::test_who_waits_as_long_as_it_is_told_gets_through",
        "one more than the limit is let through",
    ),
    Mutant(
        "server/incoming.py",
        "            wait = self._count(1, _size(message))",
        "            wait = self._count(1, 0)",
        "tests/server/test_incoming.py::test_the_local_principal_has_limits_too",
        "a client writes as much as it likes, if only in large frames",
    ),
    Mutant(
        "server/incoming.py",
        "        if wait > (MINUTE if self._is_begun else 0):",
        "        if wait > 0 and not self._is_begun:",
        "tests/server/test_incoming.py::test_a_body_that_goes_on_and_on_is_cut_off",
        "a body without end is read without end",
    ),
    Mutant(
        "server/watching.py",
        "        if metrics.allow is None:\n",
        "        if False:\n",
        f"{EXPORTERS}::test_metrics_are_served_to_this_machine_only_unless_somebody_says_otherwise",
        "anybody may read the metrics",
    ),
    Mutant(
        "observe/tracing.py",
        "context.attach(trace.set_span_in_context(span))",
        "context.attach(context.get_current())",
        f"{EXPORTERS}::test_an_attempt_is_a_span_and_the_agents_own_spans_lie_inside",
        "what a tool asks for is not inside its span",
    ),
    Mutant(
        "errors.py",
        "    return isinstance(exc, EverywordError) and exc.is_public\n",
        "    return isinstance(exc, EverywordError)\n",
        "tests/test_errors.py::test_any_other_text_is_replaced_by_a_safe_sentence",
        "a client reads a failed statement with its values",
    ),
    Mutant(
        "agents/tools.py",
        "_cut(raw_text) if self.show_errors_to_model else",
        "_cut(raw_text) if True else",
        "tests/agents/test_tools.py::test_the_text_of_an_exception_reaches_neither_model_nor_clients",
        "a model reads the text of any exception",
    ),
    Mutant(
        "agents/tool_options.py",
        '    if options["client"] and approval:\n',
        "    if False:\n",
        "tests/agents/test_tools.py::test_a_tool_of_the_page_that_needs_approval_is_refused",
        "a tool that needs approval runs and nobody is asked",
    ),
    Mutant(
        "core/decide.py",
        '    return [begun, *([MessagesRemoved(excess, cause="cap")]',
        '    return [*([MessagesRemoved(excess, cause="cap")]',
        "tests/parity/test_forgotten.py::test_an_answer_forgotten_while_clients_watch_is_shown_by_none",
        "clients that watch keep showing an answer that was forgotten",
    ),
    Mutant(
        "agents/think_toolsets.py",
        "    except ValidationError as error:  # only",
        "        await toolset.call_tool(name, arguments, context, made)\n    except ValidationError as error:  # only",
        "tests/agents/test_think_toolsets.py::test_the_text_that_a_toolsets_tool_raised_reaches_neither_model_nor_page",
        "what a tool of a toolset validates is told to the model",
    ),
    Mutant(
        "cli/exporting.py",
        "log if chosen.with_details else",
        "log if True else",
        "tests/cli/test_exporting.py::test_a_file_has_no_texts_of_exceptions_unless_asked_for",
        "an export has the texts of exceptions",
    ),
    Mutant(
        "cli/copying.py",
        "    ours = [(each.at, without_detail(each.body)) for each in there]\n",
        "    ours = [(each.at, each.body) for each in there]\n",
        "tests/cli/test_exporting.py::test_the_same_log_with_and_without_details_is_one_log",
        "a file without details does not fit the log that it was made from",
    ),
    Mutant(
        "server/permissions.py",
        '        if isinstance(verdict, Reject):\n            return verdict\n        log.error(\n            "`%s`',
        '        if verdict:\n            return verdict\n        log.error(\n            "`%s`',
        f"{DOORS}::test_only_a_principal_comes_in_over_http",
        "an `authorize` that returns a name lets everybody in",
    ),
    Mutant(
        "server/access.py",
        "if not _is_added_by_browser(name, value)]",
        "]",
        f"{ACCESS}::test_no_code_sees_the_cookies_of_a_page_that_only_the_star_lets_in",
        "a page of any site acts with its visitors' cookies",
    ),
    Mutant(
        "server/access.py",
        ' or name.startswith("x-forwarded")',
        "",
        f"{ACCESS}::test_without_authorize_everybody_else_is_refused_and_told_how_to_open_it",
        "clients of a proxy seem to be on this machine",
    ),
    Mutant(
        "agents/callables.py",
        "    if is_read_only and not getattr(function, _FOR_READERS, False):\n",
        "    if False:\n",
        f"{READ_ONLY}::test_a_read_only_client_calls_only_what_is_marked_for_it",
        "a client that may only watch calls every method",
    ),
    Mutant(
        "server/hosting.py",
        "        if self.connection.is_readonly and not self._agent.read_only_may_send:\n",
        "        if False:\n",
        f"{READ_ONLY}::test_frames_of_its_own_reach_the_agent_only_where_the_agent_allows_it",
        "a client that may only watch reaches the agent's own code",
    ),
    Mutant(
        "server/http.py",
        "    if method not in SAFE_METHODS:\n",
        '    if method == "POST":\n',
        f"{READ_ONLY}::test_a_read_only_request_changes_nothing_at_any_path",
        "a client that may only watch deletes with DELETE",
    ),
    Mutant(
        "server/app.py",
        "if permit.principal.read_only and loads and not await can_be_watched(",
        "if False and not await can_be_watched(",
        f"{READ_ONLY}::test_a_read_only_client_makes_and_loads_no_agent",
        "a client that may only watch fills the memory with agents",
    ),
    Mutant(
        "agents/tool_threads.py",
        "                    work.call.has_begun = True\n",
        "                    work.call.has_begun = False\n",
        f"{THREADS}::test_the_model_is_told_that_the_result_of_a_plain_tool_is_unknown",
        "the model pays twice, because it reads that a call failed which still runs",
    ),
    Mutant(
        "agents/tool_running.py",
        "run_in_executor(threads, context.run",
        "run_in_executor(None, context.run",
        f"{THREADS}::test_hanging_tools_delay_no_other_threads_and_a_full_pool_is_logged_once",
        "tools that hang take the threads of everybody else",
    ),
    Mutant(
        "agents/tool_threads.py",
        "                self._waiting.pop(work, None)\n\n    def _full_report",
        "                pass\n\n    def _full_report",
        f"{THREADS}::test_a_call_that_timed_out_before_it_had_a_thread_is_never_run",
        "calls that timed out while they waited stay in memory for ever",
    ),
]
