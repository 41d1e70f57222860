"""Seeded bugs of what is built on the log: lists, approvals, notifications, attachments, erasure."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, never, replace, returns

__all__ = ["BUGS"]

CONVERSATIONS = "tests/agents/test_conversations.py"
ERASURE = "tests/core/test_erasure.py"
FOLLOW_UPS = "tests/core/test_follow_ups.py"
FORMER = "tests/agents/test_former_conversations.py"
LISTS = "tests/server/test_lists.py"
NOTIFICATIONS = "tests/server/test_notifications.py"
PAGES = "tests/server/test_visible_pages.py"
SWEEP = "tests/runtime/test_attachment_sweep.py"
WAITING = "tests/core/test_waiting_approvals.py"
WANTED = "tests/core/test_wanted.py"

BUGS = [
    Bug(
        "core:change_conversation",
        "R-38",
        drop("$known.titled_by == 'person'"),
        f"{CONVERSATIONS}::test_a_model_gives_a_title_once_and_a_persons_title_wins[memory]",
        "a model replaces the title that a person gave",
    ),
    Bug(
        "core:change_conversation",
        "R-38",
        replace("$is_late or $known.titled_by == 'person'", "$known.titled_by == 'person'"),
        f"{FOLLOW_UPS}::test_a_models_title_that_comes_after_a_clear_is_dropped",
        "a title about cleared messages shows what they said",
    ),
    Bug(
        "core:_message_ended",
        "R-38",
        never("is_longer"),
        f"{CONVERSATIONS}::test_what_an_approval_adds_to_an_answer_is_unread[memory]",
        "nobody notices what an answer has said since a person approved a call of it",
    ),
    Bug(
        "core:_with_messages",
        "R-38",
        replace("None if $messages else $known.archived_at", "$known.archived_at"),
        f"{CONVERSATIONS}::test_an_archived_conversation_comes_back_with_a_new_message[memory]",
        "new messages of an archived conversation are not seen",
    ),
    Bug(
        "core:own_copy",
        "R-38",
        returns("[]"),
        f"{CONVERSATIONS}::test_a_fork_belongs_to_the_principal_that_made_it[memory]",
        "a fork is in nobody's list",
    ),
    Bug(
        "core:_with_deadlines",
        "R-38",
        replace("None if $is_over else $delete_at", "$delete_at"),
        f"{WANTED}::test_a_conversation_is_kept_for_a_job_that_is_still_to_run_and_wakes_for_it[once]",
        "a reminder is not given, because the conversation should have been deleted before",
    ),
    Bug(
        "runtime:_fill_in_lists",
        "R-38",
        returns("None"),
        f"{FORMER}::test_a_former_conversation_is_listed_after_its_next_commit_as_after_a_rebuild[memory]",
        "a conversation of an earlier release has another owner than the principal that asked first",
    ),
    Bug(
        "server:visible_page",
        "I-14",
        replace("len($shown) == $limit", "len($shown) >= $limit and place == found[-1][1]"),
        f"{PAGES}::test_pages_are_those_of_a_list_without_what_is_hidden",
        "a page is longer if something is hidden from its reader",
    ),
    Bug(
        "core:due_approvals",
        "R-39",
        never("$record.expires_at <= $now"),
        f"{CONVERSATIONS}::test_an_approval_expires_though_no_process_was_running[memory]",
        "a call can be approved long after its time",
    ),
    Bug(
        "core:_settled",
        "R-39",
        replace("event.input if event.tool else record.input", "record.input"),
        f"{WAITING}::test_the_record_of_an_approval_keeps_the_arguments_when_its_chunks_are_deleted",
        "the record of an approval has lost the arguments after its chunks were deleted",
    ),
    Bug(
        "may_approve",
        "I-14",
        returns("True"),
        f"{LISTS}::test_an_approval_is_answered_by_one_of_its_approvers",
        "anyone who may answer approves what only a boss may",
    ),
    Bug(
        "core:_after_turn",
        "R-40",
        drop("not _waits_for_approval($state, $ended.turn)"),
        f"{FOLLOW_UPS}::test_a_request_for_an_approval_is_told_instead_of_the_end_of_its_turn",
        "a person is told of the same thing twice",
    ),
    Bug(
        "NotificationJobs._announce",
        "R-40",
        never("$event.type == 'approval.requested' and $record is None"),
        f"{NOTIFICATIONS}::test_an_approval_that_was_answered_meanwhile_is_not_told",
        "a person is asked for an approval that was given",
    ),
    Bug(
        "NotificationJobs._announce",
        "R-40",
        never("$watchers and not $options.even_if_watched"),
        f"{NOTIFICATIONS}::test_nothing_is_told_while_a_principal_is_connected",
        "a person who reads the answer gets a mail about it",
    ),
    Bug(
        "server:_judge",
        "R-40",
        never("$status == GONE"),
        f"{NOTIFICATIONS}::test_a_receiver_that_is_gone_is_not_asked_again",
        "a receiver that wants no more is asked for days",
    ),
    Bug(
        "AttachmentSweep._unused",
        "R-41",
        replace("hash_in($blob.key) not in $referenced", "True"),
        f"{SWEEP}::test_only_what_no_message_refers_to_is_deleted",
        "the photos of old messages are deleted",
    ),
    Bug(
        "AttachmentSweep._sweep_conversation",
        "R-41",
        never("await self._is_busy($member, $stack)"),
        f"{SWEEP}::test_nothing_is_deleted_while_a_turn_is_open",
        "a file that an answer is about to show is deleted",
    ),
    Bug(
        "AttachmentSweep._due",
        "R-41",
        replace("$since[$blob.key].modified <= $before", "True"),
        f"{SWEEP}::test_an_attachment_has_its_grace_time_after_its_last_reference",
        "a message that a page removes and puts back has lost its photo",
    ),
    Bug(
        "runtime:stored_references",
        "R-41",
        drop("found |= find_references($row.body or b'')"),
        f"{SWEEP}::test_states_and_hidden_branches_keep_their_attachments",
        "a file that only the state refers to is deleted",
    ),
    Bug(
        "BlobHolds.hold",
        "R-41",
        drop("touched.update(taken)"),
        f"{SWEEP}::test_a_reference_that_is_committed_during_a_sweep_is_noticed",
        "a photo that is sent while the sweep looks is deleted",
    ),
    Bug(
        "messages:_is_attachment",
        "R-41",
        returns("False"),
        "tests/server/test_attachments.py::test_the_same_photo_at_another_address_is_no_edit",
        "every question after a change of the public URL makes a branch",
    ),
    Bug(
        "Eraser._accepted",
        "R-43",
        replace("body=ABSENT", "body=event.body"),
        f"{ERASURE}::test_no_word_of_the_principal_is_left_in_an_event",
        "what a client sent with its question stays in the log",
    ),
    Bug(
        "Eraser._part",
        "R-43",
        never("isinstance($kept.get('approval'), dict)"),
        f"{ERASURE}::test_no_word_of_the_principal_is_left_in_an_event",
        "the reason that a person gave with an approval stays in the message",
    ),
    Bug(
        "Eraser._added",
        "R-43",
        never("self._is_about_us($payload)"),
        f"{ERASURE}::test_no_word_of_the_principal_is_left_in_an_event",
        "notifications that wait for their receiver name the person",
    ),
    Bug(
        "Eraser._message",
        "R-43",
        always("_author_of($message) == self.target.principal"),
        f"{ERASURE}::test_what_others_said_and_answers_that_quote_stay",
        "messages of other people are deleted, too",
    ),
    Bug(
        "Erasures._run",
        "R-43",
        replace("principal=''", "principal=erasure.principal"),
        "tests/erasure/test_erasure.py::test_no_word_of_an_erased_person_is_left_and_the_others_go_on[sqlite]",
        "the note of an erasure keeps the person's id",
    ),
]
