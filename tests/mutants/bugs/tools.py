"""Seeded bugs of the command line, the test kit, observers, ids and error texts."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, never, replace

__all__ = ["BUGS"]

EXPORTING = "tests/cli/test_export.py"
IDS = "tests/test_ids.py"
OBSERVE = "tests/server/test_observe.py"
SCRIPT = "tests/testing/test_model_script.py"

BUGS = [
    Bug(
        "errors:is_public",
        "R-29",
        drop("$exc.is_public"),
        "tests/test_errors.py::test_any_other_text_is_replaced_by_a_safe_sentence",
        "a client reads a failed statement with its values",
    ),
    Bug(
        "cli:_export",
        "R-29",
        always("$chosen.with_details"),
        f"{EXPORTING}::test_a_file_has_no_texts_of_exceptions_unless_asked_for",
        "an export has the texts of exceptions",
    ),
    Bug(
        "cli:write_agent",
        "R-29",
        replace("without_detail($each.body)", "$each.body"),
        f"{EXPORTING}::test_the_same_log_with_and_without_details_is_one_log",
        "a file without details does not fit the log that it was made from",
    ),
    Bug(
        "AppRun.start",
        "a kill ends every agent",
        drop("self.app._directory.fresh_context = ..."),
        "tests/testing/test_local_server.py::test_a_kill_ends_all_loaded_agents",
        "an agent that the test loaded outlives the server that was killed",
    ),
    Bug(
        "_Left._cut",
        "a scripted model says each thing once",
        replace("max(0, self._text - len(...))", "0"),
        f"{SCRIPT}::test_wherever_it_is_cut_off_the_rest_is_said_and_nothing_twice",
        "a scripted model repeats itself",
    ),
    Bug(
        "_Left._cut",
        "a scripted model says each thing once",
        never("$item.id in self._calls"),
        f"{SCRIPT}::test_wherever_it_is_cut_off_the_rest_is_said_and_nothing_twice",
        "a scripted model calls twice",
    ),
    Bug(
        "ids:sub_agent_id",
        "an id is the path of its agent",
        drop("safe=..."),
        f"{IDS}::test_an_id_gives_back_the_path_that_it_was_made_of",
        "a slash in a sub-agent's name is a step of its path",
    ),
    Bug(
        "ids:can_name_a_root",
        "an id is the path of its agent",
        replace("'/' not in $name or SUB not in $name.split(...)", "f'/{SUB}/' not in $name"),
        f"{IDS}::test_the_prefix_of_an_agents_children_is_that_of_no_one_else",
        "destroying one root destroys another",
    ),
    Bug(
        "EventDispatcher.hear",
        "memory is bounded",
        never("len(...) >= self._room"),
        f"{OBSERVE}::test_what_a_slow_hook_has_no_room_for_is_counted_and_said_once",
        "a slow hook fills the memory",
    ),
    Bug(
        "EventDispatcher._settled",
        "observers get committed events only",
        always("$receipt.error is None"),
        f"{OBSERVE}::test_only_committed_batches_are_delivered",
        "observers get events of a batch that was not committed",
    ),
    Bug(
        "_ToolCallSpans.start",
        "spans are nested as calls are",
        replace("trace.set_span_in_context(...)", "context.get_current()"),
        "tests/server/test_observe_exporters.py::test_an_attempt_is_a_span_and_the_agents_own_spans_lie_inside",
        "a request that a tool makes is not inside its span",
    ),
]
