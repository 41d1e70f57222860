"""Bugs that would let a client run tools, ruin a conversation, or fill the memory."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["CLIENTS"]

CORE = "tests/core/test_client_messages.py"
CHECKED = "tests/messages/test_client_messages.py"
READABLE = "tests/messages/test_readable_parts.py"
CALLS = "tests/server/test_hostile_calls.py"
LISTS = "tests/core/test_client_lists.py"
IDS = "tests/server/test_long_ids.py"

CLIENTS = [
    Mutant(
        "core/answers.py",
        '        if place.role != "assistant" or body is None or node in busy or quoted not in body:',
        "        if body is None or node in busy or quoted not in body:",
        f"{CORE}::test_a_call_in_a_user_message_takes_no_answer",
        "a client runs any tool with an input of its own",
    ),
    Mutant(
        "core/accept.py",
        "        check_questions(_taken(command.messages or (), state.tree.known_ids(), trusted=False))",
        "        pass",
        f"{CALLS}::test_no_call_that_a_client_made_up_runs_or_is_stored[request-user]",
        "a question brings any part with it",
    ),
    Mutant(
        "core/accept.py",
        "    check_questions([message])\n",
        "",
        f"{CORE}::test_an_edit_with_a_part_that_no_user_has_is_refused",
        "an edited question brings any part with it",
    ),
    Mutant(
        "core/client_lists.py",
        "        check_questions([message])\n",
        "",
        f"{CORE}::test_a_synced_message_with_a_part_that_no_user_has_is_refused_with_the_whole_list",
        "a synced edit brings any part with it",
    ),
    Mutant(
        "core/client_lists.py",
        '    if message["role"] != "assistant" or not rules.trusts_client_messages:',
        '    if message["role"] != "assistant":',
        f"{LISTS}::test_a_list_with_anything_but_questions_changed_is_refused_as_a_whole",
        "a client that is not trusted puts words into the model's mouth",
    ),
    Mutant(
        "core/client_lists.py",
        '        if place.role == "assistant" and still_streams(message):\n            continue',
        "        if False:\n            continue",
        f"{LISTS}::test_a_copy_that_still_streams_at_the_client_says_nothing",
        "a page that is behind has its whole list refused",
    ),
    Mutant(
        "messages/client_messages.py",
        '    if part.get("state") not in _SETTLED or part.get("preliminary"):',
        '    if part.get("state") not in _SETTLED:',
        f"{LISTS}::test_a_call_that_could_be_answered_or_run_is_refused_from_a_trusted_client",
        "a trusted client has a tool run with an input of its own",
    ),
    Mutant(
        "messages/client_messages.py",
        "        return copies.pop()",
        "        return copies[-1]",
        f"{LISTS}::test_an_open_call_is_not_doubled",
        "a call can be approved, and run, twice",
    ),
    Mutant(
        "messages/client_copies.py",
        "    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value",
        "    return value",
        f"{LISTS}::test_a_copy_as_browsers_make_it_is_unchanged",
        "a page cannot set its list because a stored number has a fraction",
    ),
    Mutant(
        "core/accept.py",
        '    if place.role != "user":\n        raise',
        "    if False:\n        raise",
        f"{CORE}::test_the_id_of_an_answer_is_not_taken_for_a_question",
        "a message changes its role",
    ),
    Mutant(
        "core/accept.py",
        '"parts": [part for part in message["parts"] if is_part(part)]}',
        '"parts": message["parts"]}',
        f"{CORE}::test_a_stored_message_that_would_be_refused_now_is_no_edit_when_it_is_resent",
        "a conversation that was stored under other rules cannot be gone on with",
    ),
    Mutant(
        "core/continuations.py",
        '    if state.tree.nodes[turn.node].role != "assistant":\n        return "target-not-an-answer"\n',
        "",
        f"{CORE}::test_a_waiting_continuation_of_a_user_message_is_skipped",
        "a user's message becomes an assistant's",
    ),
    Mutant(
        "messages/tool_calls.py",
        '    return part.get("approval") is None or _is_approval(part["approval"])',
        "    return True",
        f"{READABLE}::test_a_tool_part_with_impossible_types_is_no_call",
        "one malformed part fails every later turn of its conversation",
    ),
    Mutant(
        "messages/client_messages.py",
        "    if kind in RESERVED:",
        "    if False:",
        f"{CHECKED}::test_a_data_part_that_only_the_server_writes_is_refused",
        "a client tells a model things that no user may say",
    ),
    Mutant(
        "wire/parse.py",
        '    if (problem := id_problem(request, "its id")) is not None:',
        "    if False:",
        f"{IDS}::test_a_request_with_a_long_id_is_refused_under_the_beginning_of_it",
        "every word of an answer carries megabytes of id",
    ),
    Mutant(
        "log/sqlite/queries.py",
        "(found and len(each.body) > room)",
        "False",
        "tests/log/test_pages.py::test_a_page_ends_at_its_size_and_has_at_least_one_event",
        "one slow reader holds as much as the log has",
    ),
]
