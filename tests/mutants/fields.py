"""Seeded bugs: the server's fields in messages (R-37), managed streams as one command, and sub-agents' usage."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["FIELDS"]

STAMPS = "tests/core/test_stamps.py"
MANAGED = "tests/core/test_managed_streams.py"
USAGE = "tests/core/test_usage.py"

FIELDS = [
    Mutant(
        "core/accept.py",
        'believes="answers" if command.trusted else "nothing")',
        'believes="all")',
        f"{STAMPS}::test_what_a_question_says_of_its_own_author_is_not_believed",
        "a client names another author of its question (R-37)",
    ),
    Mutant(
        "core/accept.py",
        'believes="all" if command.trusted else "nothing")',
        'believes="all")',
        f"{STAMPS}::test_messages_that_a_client_adds_or_changes_are_said_by_it_now",
        "a client names another author of a message that it sets (R-37)",
    ),
    Mutant(
        "core/accept.py",
        "    return compared != without_fields(stored)",
        "    return compared != stored",
        f"{STAMPS}::test_asking_for_an_answer_again_is_no_edit_whatever_the_copy_has",
        "regenerating becomes an edit, because a page has no fields of the server (R-37)",
    ),
    Mutant(
        "messages/client_copies.py",
        '    return _encoded({**_without_none(without_fields(message)), "parts": parts})\n\n\ndef _full_key',
        '    return _encoded({**_without_none(message), "parts": parts})\n\n\ndef _full_key',
        f"{STAMPS}::test_a_synced_list_of_copies_changes_nothing",
        "a copy of an answer without the server's fields counts as changed (R-37)",
    ),
    Mutant(
        "core/sanitize.py",
        "with_fields(rules.sanitize(message), fields_of(message))",
        "rules.sanitize(message)",
        f"{STAMPS}::test_sanitising_sees_the_fields_and_cannot_remove_or_change_them",
        "an agent's sanitising removes the author (R-37)",
    ),
    Mutant(
        "core/decide.py",
        "    if turn.fold is not None and turn.fold.is_empty:  # nothing was said yet",
        "    if turn.chunks == 0:",
        f"{STAMPS}::test_an_answer_that_begins_anew_has_the_time_of_that",
        "an answer that begins anew has no time (R-37)",
    ),
    Mutant(
        "core/decide.py",
        "    return [*cancelled, *events, ChatCleared",
        "    return [*events, ChatCleared",
        f"{MANAGED}::test_clearing_cancels_the_jobs_that_are_there_when_it_is_decided_and_no_others",
        "a job fills a stream of a conversation that was cleared",
    ),
    Mutant(
        "core/runs.py",
        " and not _is_counted_later(state, run)",
        "",
        f"{USAGE}::test_no_run_of_an_open_turn_is_forgotten_before_it_was_counted",
        "the tokens of a turn's first sub-agents are lost when it has many",
    ),
    Mutant(
        "core/usage.py",
        "if run.started.within == turn.id and run.ended is not None",
        "if run.ended is not None",
        f"{USAGE}::test_runs_of_other_turns_and_of_none_do_not_count",
        "the tokens of a sub-agent are told with every later turn",
    ),
    Mutant(
        "runtime/agent_tool_runs/watching.py",
        "        run_in_trace(self._started.trace)\n",
        "",
        "tests/server/test_observe_exporters.py::test_a_sub_agents_spans_lie_inside_the_call_that_asks_it",
        "a sub-agent's span begins a trace of its own",
    ),
    Mutant(
        "wire/chat.py",
        "            return _as_stored(event.messages)\n",
        "            return []\n",
        "tests/wire/test_chat.py::test_who_asked_gets_its_stored_question_chunks_and_the_end_and_no_transcript",
        "a client never has the author and time of its own question (R-37)",
    ),
]
