from __future__ import annotations

import json
from typing import Any

from everyword.client.protocol.sse_turn import SseTurn
from everyword.messages.sse import SseEvent, SseParser

START = {"type": "start", "messageId": "a1"}
OPEN = {"type": "text-start", "id": "t"}


def delta(text: str) -> dict[str, Any]:
    return {"type": "text-delta", "id": "t", "delta": text}


def events(*chunks: dict[str, Any], first: int = 0, is_done: bool = False) -> list[SseEvent]:
    text = "".join(f"id: {first + at}\ndata: {json.dumps(chunk)}\n\n" for at, chunk in enumerate(chunks))
    return SseParser().feed((text + ("data: [DONE]\n\n" if is_done else "")).encode())


def shown(turn: SseTurn) -> str | None:
    snapshot = turn.snapshot()
    return snapshot.text if snapshot is not None else None


def test_a_turn_grows_and_keeps_its_cursor() -> None:
    turn = SseTurn(None)
    turn.begin([])
    assert shown(turn) is None
    assert turn.receive(events(START, OPEN, delta("Hel")))
    assert (shown(turn), turn.cursor, turn.is_over) == ("Hel", "2", False)
    turn.resume()
    assert turn.receive(events(delta("lo"), first=3, is_done=True))
    assert (shown(turn), turn.cursor, turn.is_over) == ("Hello", "3", True)


def test_a_response_that_repeats_chunks_adds_nothing() -> None:
    turn = SseTurn("r")
    turn.begin([])
    turn.receive(events(START, OPEN, delta("Hel"), delta("lo")))
    turn.resume()
    assert not turn.receive(events(delta("Hel"), delta("lo"), first=2))
    assert shown(turn) == "Hello"


def test_a_continuation_extends_the_last_stored_message() -> None:
    stored = {"id": "a1", "role": "assistant", "parts": [{"type": "text", "text": "Hello", "state": "done"}]}
    turn = SseTurn("c")
    turn.begin([stored])
    turn.receive(events(OPEN, delta(" you")))
    assert shown(turn) == "Hello you"


def test_an_answer_of_its_own_does_not_extend_the_stored_message() -> None:
    stored = {"id": "a0", "role": "assistant", "parts": [{"type": "text", "text": "Before", "state": "done"}]}
    turn = SseTurn("r")
    turn.begin([stored])
    turn.receive(events(START, OPEN, delta("Hello")))
    assert shown(turn) == "Hello"


def test_a_failed_turn_has_its_error_text_and_its_message() -> None:
    turn = SseTurn("r")
    turn.begin([])
    turn.receive(events(START, OPEN, delta("Half"), {"type": "error", "errorText": "broken"}, is_done=True))
    assert (turn.failure, turn.is_over, shown(turn)) == ("broken", True, "Half")
