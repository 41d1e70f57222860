"""The fold of managed streams: a client that saw any part of any attempt ends with the same text."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from everyword.agents.streams.stream_manager import _AttemptWriter
from everyword.errors import Rejected
from everyword.ids import Attempt, Millis, TurnId
from everyword.messages.managed_stream import decode_chunk_event, fold_managed_stream
from tests.agents.streams.kit import PageStream


class Paper:
    """What a writer writes on: keeps the bodies, and is torn out of its hands after so many of them."""

    def __init__(self, bodies: list[bytes], room: int) -> None:
        self.bodies, self._room, self.is_whole = bodies, room, False

    async def write(self, turn: TurnId, attempt: Attempt, bodies: list[bytes]) -> None:
        for body in bodies:
            if not self._room:
                raise Rejected("torn")
            self._room -= 1
            self.bodies.append(body)

    async def end(
        self, turn: TurnId, attempt: Attempt, outcome: Any, *, total: int, bodies: Any = (), **more: Any
    ) -> None:
        self.bodies += bodies
        self.is_whole, self.total = True, total


attempts = st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=6), st.integers(0, 8)), min_size=1, max_size=5)


@given(attempts, st.data())
def test_a_client_that_saw_any_part_ends_with_the_text_of_the_last_attempt(
    lives: list[tuple[list[str], int]], data: st.DataObject
) -> None:
    """Live frames from any point on, over a history taken at that point or before, fold to the stored stream."""
    bodies: list[bytes] = []

    async def live() -> list[str] | None:
        for number, (chosen, room) in enumerate(lives, 1):
            paper: Any = Paper(bodies, room if number < len(lives) else 100)
            writer = _AttemptWriter(paper, TurnId(1), Attempt(number), folded(bodies))
            try:
                for word in chosen:
                    await writer.write(word)
                await writer.finish({})
            except Rejected:
                continue
            assert paper.total == len(chosen)
            return chosen
        return None

    last = asyncio.run(live())
    assert [chunk.content for chunk in folded(bodies).chunks] == last
    joined = data.draw(st.integers(0, len(bodies)))
    page = PageStream()
    asked_at = data.draw(st.integers(0, joined))
    answered_at = data.draw(st.integers(joined, len(bodies)))
    for place, body in enumerate(bodies[asked_at:], asked_at):
        if place == answered_at:
            page.history(history_of(bodies[:joined]))
        page.frame(frame_of(body))
    if answered_at >= len(bodies):
        page.history(history_of(bodies[:joined]))
    if page.needs_history:
        page.history(history_of(bodies))
    assert page.text == "".join(last or [])


def folded(bodies: list[bytes]) -> Any:
    return fold_managed_stream((Millis(0), body) for body in bodies)


def history_of(bodies: list[bytes]) -> Any:
    stream = folded(bodies)
    chunks = [{"index": chunk.index, "content": chunk.content} for chunk in stream.chunks]
    return {"chunks": chunks, "metadata": {"status": "streaming", "restarts": stream.restarts}}


def frame_of(body: bytes) -> dict[str, Any]:
    piece = decode_chunk_event(body)
    assert piece is not None
    if piece.content is None:
        return {"type": "rsm_stream_cut", "index": piece.index, "restarts": piece.restarts}
    return {"type": "rsm_stream_chunk", "index": piece.index, "content": piece.content, "restarts": piece.restarts}
