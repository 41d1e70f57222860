"""What the app's settings add to the events of a command: jobs that notify of them, in the same commit."""

from __future__ import annotations

from typing import Any

import msgspec

from everyword.core.commands import ChangeConversation
from everyword.core.follow_ups import NOTIFICATION_JOB
from everyword.core.state import FollowUps
from everyword.events import Chunk, Event, Identity, JobAdded, Outcome, TurnEnded
from everyword.ids import Generation, Millis
from everyword.messages.tool_calls import ApprovalAnswer
from tests.core.histories import user
from tests.core.stage import Stage, approval, call, kinds, pick, stage, text, the

DELAY = 5_000


def notifying(**settings: Any) -> Stage:
    both = {"notifies_turns": True, "notifies_approvals": True, "notification_delay": DELAY, **settings}
    return stage(follow_ups=FollowUps(**both), server_tools=frozenset({"look"}))


def told(events: list[Event]) -> list[dict[str, Any]]:
    return [msgspec.json.decode(bytes(job.payload)) for job in pick(JobAdded, events)]


def test_a_turn_that_ends_adds_a_job_that_is_due_after_the_delay() -> None:
    chat = notifying()
    chat.ask("r", user("u"))
    ended = chat.run(1, *text("fine"))
    job = the(JobAdded, ended)
    assert kinds(ended)[-2:] == ["TurnEnded", "JobAdded"]
    assert (job.job, job.callback, job.due) == ("notification-1", NOTIFICATION_JOB, chat.now + DELAY)
    assert told(ended) == [{"type": "turn.ended", "turn": 1, "request": "r", "status": "completed", "at": chat.now}]


def test_a_stop_and_a_failure_are_told_with_their_status() -> None:
    chat = notifying()
    chat.ask("r", user("u"))
    chat.begin(1)
    assert told(chat.finish(1, Outcome.ERROR))[0]["status"] == "error"
    chat.ask("s", user("v"))
    chat.begin(2)
    chat.cancel("s")
    assert told(chat.finish(2, Outcome.ABORTED))[0]["status"] == "aborted"


def test_a_question_that_was_skipped_and_a_stream_of_the_agents_own_are_not_told() -> None:
    chat = notifying()
    chat.ask("r", user("u"))
    skipped = chat.ask("s", user("v"), policy="drop")
    assert [event.outcome for event in pick(TurnEnded, skipped)] == [Outcome.SKIPPED]
    assert told(skipped) == []
    chat.run(1, *text("fine"))
    chat.open_stream("stream")
    assert told(chat.run(3, *text("bare"))) == []


def test_a_request_that_an_attempt_repeats_before_anyone_was_told_is_told_once() -> None:
    chat = notifying()
    chat.ask("r", user("u"))
    chat.begin(1)
    assert len(told(chat.emit(1, call("k1"), approval("k1")))) == 1
    chat.begin(1, "retry", fresh=True)
    assert told(chat.emit(1, call("k1"), approval("k1"), call("k2"), approval("k2"), attempt=2))[0]["call"] == "k2"
    chat.begin(1, "retry", fresh=True)
    chat.wait(DELAY)  # the first look may be under way: it may have found nothing that waits
    assert [each["call"] for each in told(chat.emit(1, call("k1"), approval("k1"), attempt=3))] == ["k1"]


def test_a_request_for_an_approval_is_told_instead_of_the_end_of_its_turn() -> None:
    chat = notifying()
    chat.ask("r", user("u"))
    chat.begin(1)
    asked = chat.emit(1, call("k1"), approval("k1"))
    place = next(event.index for event in pick(Chunk, asked) if b"tool-approval-request" in bytes(event.body))
    (about,) = told(asked)
    assert about == {"type": "approval.requested", "turn": 1, "request": "r", "call": "k1", "at": chat.now}
    assert the(JobAdded, asked).job == f"notification-1-{place}"
    assert told(chat.finish(1)) == []
    chat.answer("k1", ApprovalAnswer(False))
    chat.begin(2)
    assert [each["type"] for each in told(chat.finish(2))] == ["turn.ended"]


def test_text_that_looks_like_a_request_is_not_told() -> None:
    chat = notifying()
    chat.ask("r", user("u"))
    chat.begin(1)
    assert told(chat.emit(1, *text('"tool-approval-request"'))) == []


def test_of_a_sub_agent_only_approvals_are_told() -> None:
    chat = notifying(notifies_turns=False)
    chat.ask("r", user("u"))
    chat.begin(1)
    asked = chat.emit(1, call("k1"), approval("k1"))
    assert [each["type"] for each in told(asked)] == ["approval.requested"]
    chat.ask("s", user("v"))
    assert told(chat.finish(1)) == []


def test_jobs_of_one_commit_have_numbers_of_their_own() -> None:
    chat = notifying(has_titles=True)
    chat.ask("r", user("u"))
    title, notification = pick(JobAdded, chat.run(1, *text("fine")))
    assert (title.callback, notification.callback) == ("everyword.title", NOTIFICATION_JOB)
    assert notification.number == title.number + 1
    assert title.due == Millis(chat.now)


def test_a_copy_has_no_owner_while_nodes_run_that_do_not_know_the_event() -> None:
    ann = Identity("ann", "Ann")
    path = [user("u")]
    chat = stage(has_list_events=False)
    assert kinds(chat.put(*path, cause="forked", is_copy=True, principal=ann)) == ["MessagesPut"]
    chat = stage()
    events = chat.put(*path, cause="forked", is_copy=True, principal=ann)
    assert kinds(events) == ["MessagesPut", "ConversationChanged", "ConversationRead"]
    assert chat.state.conversation is not None
    assert (chat.state.conversation.owner, chat.state.conversation.reads) == ("ann", {"ann": 1})


def test_a_copy_into_a_conversation_with_an_owner_changes_no_owner() -> None:
    chat = stage()
    chat.ask("r", user("u"), principal=Identity("bob"))
    chat.clear()
    events = chat.put(user("v"), cause="forked", is_copy=True, principal=Identity("ann"))
    assert kinds(events) == ["MessagesPut"]


def test_a_models_title_that_comes_after_a_clear_is_dropped() -> None:
    chat = stage(follow_ups=FollowUps(has_titles=True))
    chat.ask("r", user("u"))
    assert bytes(the(JobAdded, chat.run(1, *text("fine"))).payload) == b"0"
    chat.clear()
    assert chat.tell(ChangeConversation(title="About u", titled_by="model")) == []
    chat.ask("s", user("v"))
    job = the(JobAdded, chat.run(2, *text("fine")))
    late = ChangeConversation(title="About u", titled_by="model", generation=Generation(0))
    assert chat.tell(late) == [], "a title for the new messages was asked for, and this is the old one"
    given = ChangeConversation(title="About v", titled_by="model", generation=msgspec.json.decode(bytes(job.payload)))
    assert kinds(chat.tell(given)) == ["ConversationChanged"]
