"""A log told in a terminal: every kind of event as a person would want to hear of it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from everyword.cli.event_printer import EventPrinter
from everyword.cli.event_source import CurrentState, SourceEvent
from everyword.cli.output import Output
from everyword.events import (
    AttemptDelayed,
    AttemptInterrupted,
    AttemptStarted,
    CallAnswered,
    CancelRequested,
    ChatCleared,
    Chunk,
    Event,
    FiberEnded,
    FiberStarted,
    HookDone,
    JobAdded,
    JobEnded,
    LeafMoved,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    Outcome,
    Placed,
    RunEnded,
    RunStarted,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    to_raw,
)
from everyword.ids import (
    Attempt,
    CallId,
    FiberId,
    Generation,
    JobId,
    MessageId,
    Millis,
    NodeId,
    RequestId,
    RunId,
    Seq,
    TurnId,
)
from everyword.messages.message import UIMessage

T, N = TurnId(1), NodeId(1)


def _told(*events: Event) -> tuple[str, EventPrinter]:
    out = io.StringIO()
    printer = EventPrinter(Output(out=out))
    for number, event in enumerate(events, 1):
        printer.happened(SourceEvent(Seq(number), event, Millis(number * 1000)))
    return out.getvalue(), printer


def _chunks(*bodies: dict[str, Any]) -> list[Event]:
    return [Chunk(T, Attempt(1), index, to_raw(body)) for index, body in enumerate(bodies)]


def _user(text: str) -> Placed:
    message = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": text}]}
    return Placed(N, None, MessageId("u1"), "user", to_raw(message))


def _accepted(kind: TurnKind = TurnKind.CHAT, *messages: Placed) -> TurnAccepted:
    return TurnAccepted(T, RequestId("r"), kind, Generation(0), N, None, MessageId("m"), list(messages))


def test_text_grows_and_reasoning_and_tools_have_lines_of_their_own() -> None:
    text, printer = _told(
        _accepted(TurnKind.CHAT, _user("two\nlines")),
        *_chunks(
            {"type": "start", "messageId": "m"},
            {"type": "reasoning-delta", "id": "r", "delta": "Let me "},
            {"type": "reasoning-delta", "id": "r", "delta": "see."},
            {"type": "text-delta", "id": "t", "delta": "It\n"},
            {"type": "text-delta", "id": "t", "delta": "is\033[2J"},
            {"type": "tool-input-available", "toolCallId": "k", "toolName": "look", "input": {"a": 1}},
            {"type": "tool-output-error", "toolCallId": "k", "errorText": "no\nlight"},
            {"type": "tool-output-denied", "toolCallId": "k"},
            {"type": "tool-approval-request", "toolCallId": "unknown", "approvalId": "a"},
            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA", "filename": "x.png"},
            {"type": "data-note", "data": {"n": 1}},
            {"type": "error", "errorText": "gone"},
        ),
        TurnEnded(T, Outcome.ERROR, error="The model is gone.", chunks=12),
    )
    assert text == (
        "user\n  two\n  lines\nassistant\n  Let me see.\n  It\n  is[2J\n"
        '  ⚙ look({"a":1})\n  ⚙ look failed: no light\n  ⚙ look was denied\n  ? a tool waits for approval\n'
        '  ▤ x.png image/png 20 bytes\n  ◆ data-note {"n":1}\n  gone\n'
        "  ✗ error in 13.0 s, 12 chunks: The model is gone.\n"
    )
    assert (printer.open, printer.outcome) == ({}, Outcome.ERROR)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (AttemptStarted(T, Attempt(1)), ""),
        (AttemptStarted(T, Attempt(2), "crash"), "attempt 2: the process died"),
        (AttemptDelayed(T, Attempt(3), "retry"), "attempt 3 is delayed: the model failed"),
        (AttemptInterrupted(T, Attempt(3)), "attempt 3 was interrupted by a shutdown"),
        (AttemptStarted(T, Attempt(3), "shutdown"), "attempt 3: the server was restarted"),
        (AttemptStarted(T, Attempt(3), "stall", fresh=True), "attempt 3: the model stalled; starting over"),
        (CancelRequested(T), "stop requested"),
        (
            CallAnswered(N, CallId("k"), "approval", to_raw({"approved": True})),
            'a call was answered: {"approved":true}',
        ),
        (MessagesPut([_user("hi")]), "user"),
        (MessageReplaced(N, to_raw({})), "a message was changed"),
        (MessagesRemoved([N]), "1 message removed"),
        (LeafMoved(N), "another version is shown"),
        (ChatCleared(Generation(1)), "the conversation was cleared"),
        (StateSet(to_raw({"a": 1})), 'state {"a":1}'),
        (JobAdded(JobId("j"), "once", "remind", Millis(5)), "job remind was queued"),
        (JobEnded(JobId("j"), 1, "done"), ""),
        (JobEnded(JobId("j"), 1, "failed"), "job j ended: failed"),
        (RunStarted(RunId("r1"), "search", preview="find\nit"), "search r1 was started: find it"),
        (RunEnded(RunId("r1"), "completed", summary="found"), "r1 ended: completed found"),
        (FiberStarted(FiberId("f"), "index", attempt=2), "index runs in the background, attempt 2"),
        (HookDone(T), ""),
        (_accepted(TurnKind.CONTINUATION), "the answer continues"),
        (_accepted(TurnKind.CALLS), "approved calls of an earlier answer run"),
        (_accepted(TurnKind.STREAM), ""),
        (TurnEnded(T, Outcome.ABORTED, reason="cancelled"), "■ aborted, 0 chunks: cancelled"),
        (TurnEnded(T, Outcome.SKIPPED, reason="superseded"), "· skipped, 0 chunks: superseded"),
    ],
)
def test_every_event_has_its_line_or_none(event: Event, line: str) -> None:
    text, _ = _told(event)
    assert text.split("\n")[0].strip().removeprefix("· ") == line.removeprefix("· ")


def test_background_work_that_fails_is_told_of() -> None:
    text, _ = _told(FiberEnded(FiberId("f"), "failed", detail="no disk"))
    assert text == "  · background work ended: failed no disk\n"


def test_a_joining_reader_gets_the_last_messages_and_the_open_turn_so_far() -> None:
    out = io.StringIO()
    printer = EventPrinter(Output(out=out))
    messages = [UIMessage(f"m{n}", "user", [{"type": "text", "text": f"number {n}"}]) for n in range(3)]
    printer.here(CurrentState(messages, {T: [{"type": "text-delta", "id": "t", "delta": "So f"}]}), 1)
    printer.happened(
        SourceEvent(Seq(9), Chunk(T, Attempt(1), 2, to_raw({"type": "text-delta", "id": "t", "delta": "ar"})))
    )
    assert out.getvalue() == "user\n  number 2\nassistant\n  So far"
    assert list(printer.open) == [T]
