"""Seeded bugs of messages: what a submit means, the tree of messages, lists of clients."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, before, both, drop, never, replace, returns

__all__ = ["BUGS"]

ACCEPT = "tests/core/test_accept.py"
AGREEMENT = "tests/core/test_agreement.py"
CLIENT_LISTS = "tests/core/test_client_lists.py"
CLIENT_MESSAGES = "tests/core/test_client_messages.py"
INVARIANTS = "tests/core/test_invariants.py"
POLICIES = "tests/core/test_policies.py"
STAMPS = "tests/core/test_stamps.py"

BUGS = [
    Bug(
        "Tree._path_to",
        "B3",
        replace("self.ancestors($leaf)", "(node for node in self.ancestors($leaf) if self._nodes[node].shown)"),
        f"{INVARIANTS}::test_the_active_path_is_a_path",
        "the path has holes where answers are still to come",
    ),
    Bug(
        "Tree.node_of_message",
        "B3",
        replace("return $node", "break", which="first"),
        "tests/core/test_tree.py::test_a_message_id_is_looked_up_on_the_active_path_first",
        "a change goes to a branch that is not shown",
    ),
    Bug(
        "core:accept_submit",
        "I-6",
        drop("$command.request in $state.requests"),
        f"{INVARIANTS}::test_a_request_id_is_accepted_at_most_once",
        "a resent submit is answered twice",
    ),
    Bug(
        "core:accept_submit",
        "I-6",
        drop("$command.known"),
        f"{ACCEPT}::test_a_request_that_only_the_store_remembers_causes_nothing",
        "a submit resent after a long time is answered twice",
    ),
    Bug(
        "core:place_deferred",
        "I-12",
        before("return [..., MessagesPut(...)]", "if not placed: return []"),
        f"{AGREEMENT}::test_what_is_wanted_can_be_done",
        "the runtime tries in vain to begin a deferred turn",
    ),
    Bug(
        "core:_new_messages",
        "R-4",
        drop("$message['id'] in $known"),
        f"{AGREEMENT}::test_no_message_id_is_shown_twice",
        "a resent question is asked a second time",
    ),
    Bug(
        "core:_plan",
        "R-4",
        replace("_Plan($node, [])", "_Plan(state.tree.leaf, [])", which="last"),
        f"{ACCEPT}::test_a_proper_prefix_branches_there_whatever_the_trigger_says",
        "regenerating answers the old answer",
    ),
    Bug(
        "core:_plan",
        "R-4",
        replace("$place.parent", "node", which="all"),
        f"{ACCEPT}::test_an_edited_question_branches_beside_the_old_one_under_the_same_id",
        "an edited question follows the old one",
    ),
    Bug(
        "core:_new_messages",
        "R-6",
        drop("$message['role'] != 'user'"),
        f"{ACCEPT}::test_a_forged_answer_before_the_question_is_not_taken",
        "a client can put words into the model's mouth",
    ),
    Bug(
        "core:accept_submit",
        "R-6",
        drop("check_questions(...)"),
        "tests/server/test_hostile_calls.py::test_no_call_that_a_client_made_up_runs_or_is_stored[request-user]",
        "a question brings any part with it",
    ),
    Bug(
        "core:_is_edit",
        "R-6",
        drop("check_questions(...)"),
        f"{CLIENT_MESSAGES}::test_an_edit_with_a_part_that_no_user_has_is_refused",
        "an edited question brings any part with it",
    ),
    Bug(
        "core:_checked",
        "R-6",
        drop("check_questions(...)"),
        f"{CLIENT_MESSAGES}::test_a_synced_list_with_a_part_that_users_cannot_have_is_refused",
        "a synced edit brings any part with it",
    ),
    Bug(
        "core:_is_edit",
        "R-6",
        never("$place.role != 'user'"),
        f"{CLIENT_MESSAGES}::test_the_id_of_an_answer_is_not_taken_for_a_question",
        "a message changes its role",
    ),
    Bug(
        "core:_differs",
        "R-6",
        replace("[$part for $part in $message['parts'] if is_part(...)]", "$message['parts']"),
        f"{CLIENT_MESSAGES}::test_resending_a_stored_message_that_is_invalid_now_is_no_edit",
        "a conversation that was stored under other rules cannot continue",
    ),
    Bug(
        "core:_apply_policy",
        "R-7",
        always("_adds_question(...)"),
        f"{POLICIES}::test_an_edit_under_the_merge_policy_is_a_branch_and_merges_with_nothing",
        "merging an edit shows one message id twice",
    ),
    Bug(
        "core:_may_be_superseded",
        "R-7",
        both(
            drop("$accepted.trigger == 'submit-message'"),
            replace("bool($accepted.messages)", "bool($accepted.messages or $accepted.message_ids)"),
        ),
        f"{POLICIES}::test_a_waiting_regeneration_is_never_superseded",
        "a waiting regeneration is thrown away",
    ),
    Bug(
        "core:_mergeable_tail",
        "R-7",
        drop("$turn.node != $below"),
        f"{POLICIES}::test_merging_hides_nothing_that_was_put_behind_the_waiting_question",
        "merging hides what was said in between",
    ),
    Bug(
        "core:_drop",
        "R-7",
        drop("TurnEnded(...)"),
        f"{POLICIES}::test_a_dropped_question_is_skipped_in_one_batch_and_adds_no_node",
        "a dropped question waits for an answer for ever",
    ),
    Bug(
        "core:is_steered",
        "R-7",
        drop("$turn.accepted.trusted"),
        "tests/agents/test_steering.py::test_a_turn_that_our_own_code_waits_for_is_not_cut_short",
        "code that waits for an answer gets half of it",
    ),
    Bug(
        "core:_checked",
        "R-8",
        drop("not $rules.trusts_client_messages"),
        f"{CLIENT_LISTS}::test_a_list_with_anything_but_questions_changed_is_refused_as_a_whole",
        "a client that is not trusted puts words into the model's mouth",
    ),
    Bug(
        "core:changes_of",
        "R-8",
        never("$place.role == 'assistant' and still_streams(...)"),
        f"{CLIENT_LISTS}::test_a_copy_that_still_streams_at_the_client_says_nothing",
        "a page that is behind has its whole list refused",
    ),
    Bug(
        "core:_has_same_principal",
        "R-35",
        returns("True"),
        "tests/core/test_principals.py::test_a_question_takes_nothing_away_from_another_principals",
        "a question is merged with one of another principal, and both are answered in one name",
    ),
    Bug(
        "core:accept_submit",
        "R-37",
        replace("'answers' if $command.trusted else 'nothing'", "'all'"),
        f"{STAMPS}::test_what_a_question_says_of_its_own_author_is_not_believed",
        "a client names another author of its question",
    ),
    Bug(
        "core:put_messages",
        "R-37",
        replace("'all' if $command.trusted else 'nothing'", "'all'"),
        f"{STAMPS}::test_messages_that_a_client_adds_or_changes_get_new_fields",
        "a client names another author of a message that it sets",
    ),
    Bug(
        "core:_differs",
        "R-37",
        replace(
            "with_plain_urls($compared) != with_plain_urls(without_fields($stored))",
            "with_plain_urls($compared) != with_plain_urls($stored)",
        ),
        f"{STAMPS}::test_asking_for_an_answer_again_is_no_edit_whatever_the_copy_has",
        "regenerating becomes an edit, because a page has no fields of the server",
    ),
    Bug(
        "core:sanitized",
        "R-37",
        replace("with_fields($sanitized, ...)", "$sanitized"),
        f"{STAMPS}::test_sanitising_sees_the_fields_and_cannot_remove_or_change_them",
        "an agent's sanitising removes the author",
    ),
    Bug(
        "core:_changed",
        "a message has one writer",
        drop("$node not in $written"),
        f"{ACCEPT}::test_a_message_that_an_open_turn_writes_is_not_replaced_under_its_feet",
        "an edit replaces a message that is being written",
    ),
    Bug(
        "Transcript._chunk",
        "an answer keeps its message id",
        replace("MessageFold($id, ...)", "MessageFold('', ...)"),
        "tests/core/test_transcript.py::test_an_answer_is_seen_as_it_grows_under_the_id_that_it_will_keep",
        "an answer changes its id when it ends",
    ),
    Bug(
        "Transcript.apply",
        "an observer of the log shows what is stored",
        drop("self.messages.pop(...)", which="last"),
        f"{AGREEMENT}::test_what_an_observer_saw_of_the_log_is_what_is_kept",
        "an observer goes on showing what was removed",
    ),
    Bug(
        "Tree.remove",
        "caches of the tree hold what a walk finds",
        drop("self._path"),
        f"{INVARIANTS}::test_remembered_paths_equal_walked_ones_and_changes_raise_the_revision",
        "a path is remembered that leads through removed messages",
    ),
    Bug(
        "Tree.write",
        "caches of the tree hold what a walk finds",
        drop("self.revision += 1"),
        f"{INVARIANTS}::test_remembered_paths_equal_walked_ones_and_changes_raise_the_revision",
        "the end of an answer does not reach the transcript",
    ),
    Bug(
        "Tree.write",
        "caches of the tree hold what a walk finds",
        drop("self._shown = None"),
        f"{INVARIANTS}::test_remembered_paths_equal_walked_ones_and_changes_raise_the_revision",
        "clients are shown the branch of the first time for ever",
    ),
    Bug(
        "Tree.shown_path",
        "caches of the tree hold what a walk finds",
        never("$shown and $shown[-1][0] == $path[-1]"),
        f"{INVARIANTS}::test_remembered_paths_equal_walked_ones_and_changes_raise_the_revision",
        "a model reads its own half answer as part of the question",
    ),
    Bug(
        "Tree.add",
        "caches of the tree hold what a walk finds",
        drop("self._ids.add(...)"),
        f"{AGREEMENT}::test_what_is_remembered_of_the_branch_is_what_a_walk_finds",
        "an answer that is sent again becomes a second message",
    ),
    Bug(
        "Tree._path_from",
        "caches of the tree hold what a walk finds",
        replace("$path if $ancestor is None else None", "$path"),
        f"{AGREEMENT}::test_what_is_remembered_of_the_branch_is_what_a_walk_finds",
        "after an edit, the old branch and the new one are shown in a row",
    ),
    Bug(
        "core:put_messages",
        "only clearing, removing and branching hide messages",
        replace("$state.leaf", "None"),
        f"{AGREEMENT}::test_only_clearing_removing_and_branching_hide_what_was_shown",
        "messages stored without a turn hide the whole conversation",
    ),
    Bug(
        "Tree.active_path",
        "reading changes nothing",
        before("self._path = self._path_to(...)", "self.revision += 1"),
        "tests/core/test_purity.py::test_reading_a_tree_changes_nothing_that_can_be_read",
        "a transcript is rendered again because a reader looked at the tree",
    ),
]
