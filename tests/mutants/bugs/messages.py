"""Seeded bugs of message parts, of the fold of chunks, and of the codec."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, never, replace

__all__ = ["BUGS"]

CLIENT_LISTS = "tests/core/test_client_lists.py"
COMPACT = "tests/codec/test_compact.py"
NORMALISER = "tests/messages/test_normaliser.py"

BUGS = [
    Bug(
        "codec:_continues",
        "I-10",
        always("bool(...)"),
        f"{COMPACT}::test_a_compacted_rest_behind_any_cursor_folds_like_the_whole",
        "compacting joins the deltas of different parts",
    ),
    Bug(
        "messages:_TAKES_NO_OUTPUT",
        "R-1",
        drop("_State.CLOSED"),
        f"{NORMALISER}::test_a_denied_call_never_gets_an_output",
        "a call that was denied gets an output after all",
    ),
    Bug(
        "messages:answered_part",
        "R-1",
        replace("$state not in _TAKES_APPROVAL", "$state is None"),
        "tests/messages/test_tool_calls.py::test_the_first_answer_wins",
        "the second answer to a question replaces the first",
    ),
    Bug(
        "codec:_encode_call",
        "R-2",
        drop("not ($is_replay and is_settled(...))"),
        f"{COMPACT}::test_an_answered_approval_is_left_out_of_a_replay_and_an_open_one_is_not",
        "a replay asks a question that was already answered",
    ),
    Bug(
        "messages:_shape_problem",
        "R-6",
        never("$kind in RESERVED"),
        "tests/messages/test_client_messages.py::test_a_data_part_that_only_the_server_writes_is_refused",
        "a client tells a model things that no user may say",
    ),
    Bug(
        "messages:_answer_problem",
        "R-8",
        drop("$part.get('preliminary')"),
        f"{CLIENT_LISTS}::test_an_open_call_from_a_trusted_client_is_refused",
        "a trusted client has a tool run with an input of its own",
    ),
    Bug(
        "messages:_checked_answer_part",
        "R-8",
        replace("$copies.pop()", "$copies[-1]"),
        f"{CLIENT_LISTS}::test_an_open_call_is_not_doubled",
        "a call can be approved, and run, twice",
    ),
    Bug(
        "messages:_with_floats",
        "R-8",
        never("isinstance(...) and (not isinstance(...))"),
        f"{CLIENT_LISTS}::test_a_copy_as_browsers_make_it_is_unchanged",
        "a page cannot set its list because a stored number has a fraction",
    ),
    Bug(
        "_PartIds.__init__",
        "R-17",
        replace("f'~{len(...)}' if $parts else ''", "''"),
        f"{NORMALISER}::test_a_second_attempt_has_no_start_and_other_ids",
        "a second attempt writes into the parts of the first",
    ),
    Bug(
        "messages:fold_managed_stream",
        "R-20",
        replace("$index < $piece.index", "$index <= $piece.index"),
        "tests/agents/streams/test_stream_manager_fold.py::test_a_client_that_saw_any_part_ends_with_the_text_of_the_last_attempt",
        "a chunk that was taken back stays",
    ),
    Bug(
        "_PartIds.unused",
        "R-24",
        drop("self._used.add(...)"),
        f"{NORMALISER}::test_an_id_used_twice_in_a_step_is_renamed",
        "two parts of a step share an id and run into each other",
    ),
    Bug(
        "Normaliser.encode_text",
        "R-24",
        replace("$part != self._stem[0]", "not self._stem[0]"),
        f"{NORMALISER}::test_text_that_flows_is_what_it_would_have_been_step_by_step",
        "text after a tool call goes on with the part before it",
    ),
    Bug(
        "messages:is_tool_part",
        "R-31",
        always("$part.get(...) is None or _is_approval(...)"),
        "tests/messages/test_readable_parts.py::test_a_tool_part_with_impossible_types_is_no_call",
        "one malformed part fails every later turn of its conversation",
    ),
    Bug(
        "messages:_message_key",
        "R-37",
        replace("without_fields($message)", "$message"),
        "tests/core/test_stamps.py::test_a_synced_list_of_copies_changes_nothing",
        "a copy of an answer without the server's fields counts as changed",
    ),
    Bug(
        "MessageFold.message",
        "a snapshot of a message never changes",
        replace("[dict($part) for $part in $parts]", "list($parts)"),
        "tests/messages/test_fold.py::test_a_snapshot_never_changes_and_never_disturbs_the_fold",
        "a message that was handed out changes afterwards",
    ),
]
