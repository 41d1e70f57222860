"""Live, late and replaying readers of a turn fold to the same message and hear the same ending (I-4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from everyword.agents import AIChatAgent, Turn
from everyword.errors import ChatError
from everyword.ids import Millis
from everyword.messages.sse import SseEvent
from everyword.server import Everyword
from everyword.testing import Gate
from tests.server.kit import Item, Reader, chat, ending, folded, question, reading, scripted, serving, talking, text_of

FIRST_HALF: list[Item] = [
    "Hel",
    "lo ",
    {"type": "reasoning-start", "id": "r"},
    {"type": "reasoning-delta", "id": "r", "delta": "thin"},
    {"type": "reasoning-delta", "id": "r", "delta": "king"},
    {"type": "reasoning-end", "id": "r"},
    {"type": "tool-input-start", "toolCallId": "k", "toolName": "find"},
    {"type": "tool-input-delta", "toolCallId": "k", "inputTextDelta": '{"wh'},
    {"type": "tool-input-delta", "toolCallId": "k", "inputTextDelta": 'at": 1}'},
    {"type": "tool-input-available", "toolCallId": "k", "toolName": "find", "input": {"what": 1}},
    {"type": "tool-output-available", "toolCallId": "k", "output": ["grüße", "😀"]},
    {"type": "data-note", "id": "n", "data": 1},
    {"type": "data-note", "id": "n", "data": {"second": 2}},
    {"type": "data-blink", "data": "gone", "transient": True},
    {"type": "message-metadata", "messageMetadata": {"cost": 5}},
    "half a wo",
]
SECOND_HALF: list[Item] = ["rd, ", "line\nbreak\r\nand ", "the end 😀"]
OUTCOMES = ["completed", "error", "aborted"]


class Watched:
    """One turn, watched live, joined in the middle at every chunk, and read again after its end."""

    def __init__(self, client: httpx.AsyncClient, gate: Gate, last: Gate, outcome: str) -> None:
        self.client, self.gate, self.last, self.outcome = client, gate, last, outcome
        self.joined: dict[int | None, Reader] = {}
        self.late: dict[int | None, Reader] = {}

    async def watch(self) -> None:
        headers = {"idempotency-key": "r1"}
        async with reading(self.client, "POST", "chat", json=question(), headers=headers) as self.live:
            await self.live.until(lambda event: "half a wo" in event.data)
            async with AsyncExitStack() as stack:
                for after in (None, *range(len(self.live.events))):
                    reader = await stack.enter_async_context(_joining(self.client, "chat/stream", after))
                    self.joined[after] = reader
                self.gate.open()
                await self._end()
                await asyncio.gather(self.live.rest(), *(reader.rest() for reader in self.joined.values()))
        await asyncio.gather(*(self._come_late(after) for after in (None, *range(self.chunks))))

    async def _come_late(self, after: int | None) -> None:
        async with _joining(self.client, "chat/stream?request=r1", after) as reader:
            await reader.rest()
        self.late[after] = reader

    @property
    def chunks(self) -> int:
        """How many events of the live stream are chunks, and not its ending."""
        return len(self.live.events) - (1 if self.outcome == "completed" else 2)

    async def _end(self) -> None:
        if self.outcome == "aborted":
            await self.live.until(lambda event: "the end" in event.data)
            await self.client.post("chat/stop")


def _joining(client: httpx.AsyncClient, path: str, after: int | None) -> Any:
    return reading(client, "GET", path, headers={} if after is None else {"last-event-id": str(after)})


def _script(outcome: str, gate: Gate, last: Gate) -> list[Item]:
    endings: dict[str, list[Item]] = {"completed": [], "error": [ChatError("No luck.")], "aborted": [last]}
    return [*FIRST_HALF, gate, *SECOND_HALF, *endings[outcome]]


async def _watched(outcome: str, store: str) -> tuple[Watched, list[dict[str, Any]]]:
    gate, last = Gate(), Gate()
    async with talking(chat(scripted(_script(outcome, gate, last)), store=store)) as client:
        watched = Watched(client, gate, last, outcome)
        await watched.watch()
        return watched, (await client.get("get-messages")).json()


def _without_transient(events: Iterable[SseEvent]) -> list[SseEvent]:
    return [event for event in events if "data-blink" not in event.data]


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("store", ["memory:", "file"])
async def test_every_reader_of_a_turn_has_the_same_message_and_ending_and_bytes_behind_its_cursor(
    outcome: str, store: str, tmp_path: Path
) -> None:
    watched, stored = await _watched(outcome, "memory:" if store == "memory:" else str(tmp_path / "log.db"))
    live = watched.live
    message, end = folded(live.chunks), ending(live.events)
    assert text_of(message).endswith("the end 😀")
    assert end["type"] == {"completed": "finish", "error": "error", "aborted": "abort"}[outcome]
    assert stored[-1] == message
    for readers in (watched.joined, watched.late):
        assert len(readers) > len(FIRST_HALF)
        for after, reader in readers.items():
            seen = live.events[: after + 1] if after is not None else []
            chunks = [json.loads(event.data) for event in [*seen, *reader.events] if event.data != "[DONE]"]
            assert folded(chunks) == message, after
            assert ending([*seen, *reader.events]) == end, after
    for after in range(len(watched.joined) - 1):
        assert watched.joined[after].events == live.events[after + 1 :]
        assert live.raw.endswith(watched.joined[after].raw)
    for after in range(watched.chunks):
        assert watched.late[after].events == _without_transient(live.events[after + 1 :])


async def test_a_reader_without_a_cursor_gets_the_message_so_far_in_few_chunks() -> None:
    gate = Gate()
    script: list[Item] = [*(f"word{number} " for number in range(500)), gate, "end"]
    async with talking(chat(scripted(script))) as client:
        async with reading(client, "POST", "chat", json=question()) as live:
            await live.until(lambda event: "word499" in event.data)
            async with reading(client, "GET", "chat/stream") as late:
                await late.until(lambda event: "word499" in event.data)
                replayed = list(late.events)
                assert len(replayed) < 6
                assert [event.id for event in replayed[:-1]] == [None] * (len(replayed) - 1)
                assert replayed[-1].id == live.events[-1].id
                gate.open()
                await late.rest()
            await live.rest()
        assert folded(late.chunks) == folded(live.chunks)


async def test_a_transient_part_is_told_to_late_readers_while_its_turn_is_open() -> None:
    gate = Gate()
    async with talking(chat(scripted([*FIRST_HALF, gate]))) as client:
        async with reading(client, "POST", "chat", json=question(), headers={"idempotency-key": "r1"}) as live:
            await live.until(lambda event: "half a wo" in event.data)
            for path in ("chat/stream", "events"):
                async with reading(client, "GET", path) as late:
                    await late.until(lambda event: "data-blink" in event.data)
            gate.open()
            await live.rest()
        async with reading(client, "GET", "chat/stream?request=r1") as late:
            assert "data-blink" not in str(await late.rest())


async def test_a_reader_whose_cursor_is_of_another_turn_gets_the_whole_message() -> None:
    gate = Gate()
    async with talking(chat(scripted(["short", gate]))) as client:
        async with reading(client, "POST", "chat", json=question()) as live:
            await live.until(lambda event: "short" in event.data)
            for said in ("4711", "not-a-number", "-1", "٣"):
                headers = {"last-event-id": said.encode()}
                async with reading(client, "GET", "chat/stream", headers=headers) as late:
                    await late.until(lambda event: "short" in event.data)
                assert late.chunks[0]["type"] == "start"
            gate.open()
            await live.rest()


async def test_nothing_runs_and_so_there_is_nothing_to_resume() -> None:
    async with talking(chat(scripted(["x"]))) as client:
        answer = await client.get("chat/stream")
        assert (answer.status_code, answer.content) == (204, b"")
        async with reading(client, "POST", "chat", json=question(), headers={"idempotency-key": "r1"}) as live:
            await live.rest()
        assert (await client.get("chat/stream")).status_code == 204
        assert (await client.get("chat/stream?request=nobody")).status_code == 204
        has_all = {"last-event-id": str(len(live.events) - 1)}
        assert (await client.get("chat/stream?request=r1", headers=has_all)).status_code == 204


@pytest.mark.parametrize("after", [None, "3"])
async def test_a_turn_whose_chunks_were_pruned_is_told_from_its_message(after: str | None) -> None:
    gate = Gate()
    gate.open()
    app = chat(scripted(_script("error", gate, Gate())))
    async with talking(app) as client:
        async with reading(client, "POST", "chat", json=question(), headers={"idempotency-key": "r1"}) as live:
            await live.rest()
        store = (await app.start()).directory.store
        pruned = await store.prune(Millis(2**50))
        assert pruned.chunks == len(live.events) - 2
        headers = {"last-event-id": after} if after is not None else {}
        async with reading(client, "GET", "chat/stream?request=r1", headers=headers) as late:
            await late.rest()
        message, told = folded(live.chunks), folded(late.chunks)
        assert told["parts"] == message["parts"] and told["id"] == message["id"]
        assert ending(late.events) == ending(live.events)


WORDS = [f"word{number} " for number in range(40)]


class Chat(AIChatAgent):
    """Says its words, goes on behind what it has said, and stops once on the way, for ever."""

    stuck: Gate

    async def on_chat_message(self, turn: Turn) -> Any:
        said = len(self.messages[-1].text.split()) if turn.continuation else 0
        for word in WORDS[said:]:
            if word == "word20 " and turn.attempt == 1:
                await self.stuck.wait()
            yield word


async def test_a_stream_that_a_restart_cut_off_goes_on_behind_its_last_event(tmp_path: Path) -> None:
    Chat.stuck = Gate()
    seen: list[SseEvent] = []
    for attempt in (1, 2):
        app = Everyword([Chat], store=str(tmp_path / "log.db"))
        app.grace = 0.0
        async with serving(app) as url, httpx.AsyncClient(base_url=f"{url}/agents/chat/ann", verify=False) as client:
            if attempt == 1:
                async with reading(client, "POST", "chat", json=question(), headers={"idempotency-key": "r1"}) as live:
                    await live.until(lambda event: "word19" in event.data)
                seen = live.events[:10]
                continue
            last = {"last-event-id": str(seen[-1].id)}
            async with reading(client, "GET", "chat/stream?request=r1", headers=last) as reader:
                seen = [*seen, *await reader.rest()]
            stored = (await client.get("get-messages")).json()
    chunks = [json.loads(event.data) for event in seen if event.data != "[DONE]"]
    assert text_of(folded(chunks)) == "".join(WORDS) == text_of(stored[-1])
    assert [event.id for event in seen[:-1]] == [str(index) for index in range(len(chunks))]
    assert folded(chunks) == stored[-1]
