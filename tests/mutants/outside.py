"""Seeded bugs of what stands outside the agents: answers over plain HTTP, the test kit, those who watch."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["OUTSIDE"]

POSTED = "tests/server/test_posted.py"
SCRIPT = "tests/testing/test_script.py"
PARITY = "tests/testing/test_parity.py"
OBSERVE = "tests/server/test_observe.py"
EXPORTERS = "tests/server/test_observe_exporters.py"

OUTSIDE = [
    Mutant(
        "server/posted.py",
        "auto_continue=goes_on",
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
        "open_turn_frames(directory, agent, standing.running, BEFORE_ALL)",
        "open_turn_frames(directory, agent, standing.running, None)",
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
        "observe/tap.py",
        "        if len(self._waiting) >= self._room:\n",
        "        if False:\n",
        f"{OBSERVE}::test_what_a_slow_hook_has_no_room_for_is_counted_and_said_once",
        "a slow hook fills the memory",
    ),
    Mutant(
        "observe/tap.py",
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
]
