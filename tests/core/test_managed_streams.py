"""One command opens a managed stream with its question and job; one ends it with its last chunks (R-20)."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.core.commands import AddJob, BeginAttempt, ClearConversation, Emitted, FinishTurn, OpenStream
from everyword.errors import Rejected
from everyword.events import (
    ChatCleared,
    Chunk,
    Identity,
    JobAdded,
    JobEnded,
    MessagesPut,
    Outcome,
    TurnAccepted,
    TurnEnded,
)
from everyword.ids import Attempt, JobId, MessageId, Millis, RequestId, TurnId
from tests.core.histories import assistant, user
from tests.core.stage import Stage, kinds, pick, stage, the

FILL = "fill"


def fill(name: str = "j1", callback: str = FILL) -> AddJob:
    return AddJob(JobId(name), "queue", callback, Millis(0))


def asked(name: str = "s1", job: AddJob | None = None) -> OpenStream:
    question = user(f"u-{name}")
    return OpenStream(RequestId(name), MessageId(f"a-{name}"), question=question, job=job, principal=Identity("ann"))


def opened() -> Stage:
    told = stage()
    told.tell(asked(job=fill()))
    return told


def test_a_question_its_stream_and_its_job_are_one_batch() -> None:
    told = stage()
    events = told.tell(asked(job=fill()))
    assert kinds(events) == ["MessagesPut", "TurnAccepted", "JobAdded"]
    assert (told.path, told.fields(1)) == (["u-s1"], {"time": 1000, "author": {"id": "ann"}})


@pytest.mark.parametrize("why", ["the question", "the job"])
def test_nothing_of_it_is_there_if_a_part_is_refused(why: str) -> None:
    def broken(message: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("no")

    told = stage(sanitize=broken) if why == "the question" else stage()
    if why == "the job":
        told.tell(fill("j1", "another"))
    before = len(told.log)
    with pytest.raises(Rejected):
        told.tell(asked(job=fill("j1")))
    assert (len(told.log), told.path, list(told.state.open)) == (before, [], [])


def test_a_known_stream_asks_nothing_twice() -> None:
    told = opened()
    assert told.tell(asked(job=fill("j2"))) == []


def test_the_last_chunks_the_message_and_the_end_are_one_batch() -> None:
    told = opened()
    told.tell(BeginAttempt(TurnId(1)))
    last = [Emitted(b'{"type":"start"}'), Emitted(b'{"type":"finish"}')]
    end = FinishTurn(TurnId(1), Attempt(1), Outcome.COMPLETED, message=assistant("a-s1", "said"), chunks=last)
    events = told.tell(end)
    assert kinds(events) == ["Chunk", "Chunk", "MessagesPut", "TurnEnded"]
    assert [chunk.index for chunk in pick(Chunk, events)] == [0, 1]
    assert the(TurnEnded, events).chunks == 2
    assert bytes(pick(Chunk, events)[0].body) == b'{"type":"start"}', "its pieces are not the chunks of a chat"
    assert told.said() == ["hi", "said"]


def test_an_end_that_is_refused_leaves_no_chunk() -> None:
    told = opened()
    told.tell(BeginAttempt(TurnId(1)))
    told.tell(FinishTurn(TurnId(1), Attempt(1), Outcome.COMPLETED))
    before = len(told.log)
    with pytest.raises(Rejected):
        told.tell(FinishTurn(TurnId(1), Attempt(1), Outcome.COMPLETED, chunks=[Emitted(b'{"type":"start"}')]))
    assert len(told.log) == before


def test_clearing_cancels_the_jobs_that_exist_at_that_time() -> None:
    told = opened()
    told.tell(fill("j2", "another"))
    told.tell(asked("s2", fill("j3")))
    events = told.tell(ClearConversation(cancels=FILL))
    assert [end.job for end in pick(JobEnded, events)] == ["j1", "j3"]
    assert len(pick(TurnEnded, events)) == 2 and isinstance(events[-1], ChatCleared)
    assert list(told.state.jobs) == ["j2"]


def test_clearing_a_chat_leaves_the_jobs() -> None:
    told = opened()
    assert pick(JobEnded, told.tell(ClearConversation())) == []
    assert pick(JobAdded, told.tell(asked("s2", fill("j2")))) and list(told.state.jobs) == ["j1", "j2"]


def test_a_bare_stream_has_neither_question_nor_job() -> None:
    events = stage().tell(OpenStream(RequestId("s1"), MessageId("a1")))
    assert (pick(MessagesPut, events), the(TurnAccepted, events).request) == ([], "s1")
