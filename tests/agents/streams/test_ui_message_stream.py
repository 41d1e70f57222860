"""create_ui_message_stream: the order of chunks, what a failure becomes, and that nothing is left running."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.agents import AIChatAgent, Turn
from everyword.agents.streams.ui_message_stream import ROOM, SAFE_TEXT, UIMessageStreamFinish, UIMessageStreamWriter
from everyword.agents.streams.ui_message_stream import create_ui_message_stream as create
from everyword.errors import BadChunk, ChatError, UsageError
from everyword.messages.chunks import TextStart
from everyword.messages.message import UIMessage
from tests.agents.kit import served

Writer = UIMessageStreamWriter

USER = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
OLD = {"id": "old", "role": "assistant", "parts": [{"type": "text", "text": "so far"}]}


def note(value: Any) -> dict[str, Any]:
    return {"type": "data-note", "data": value}


async def notes(*values: Any) -> AsyncIterator[dict[str, Any]]:
    for value in values:
        yield note(value)


async def failing(*values: Any) -> AsyncIterator[dict[str, Any]]:
    for value in values:
        yield note(value)
    raise ValueError("the merged secret")


async def read(stream: AsyncIterator[dict[str, Any]]) -> list[Any]:
    """Return each chunk, notes as their value and errors as `!text`."""
    seen: list[Any] = []
    async for chunk in stream:
        kind = chunk["type"]
        seen.append(chunk["data"] if kind == "data-note" else f"!{chunk['errorText']}" if kind == "error" else chunk)
    return seen


# -- order; the lists of the first three are what createUIMessageStream of ai 6 gave for such an execute ------------


async def test_a_sync_execute_writes_before_what_it_merged() -> None:
    def execute(writer: Writer) -> None:
        writer.write(note("a"))
        writer.merge(notes("m0", "m1", "m2"))
        writer.write(note("b"))

    assert await read(create(execute)) == ["a", "b", "m0", "m1", "m2"]


async def test_merged_streams_that_are_ready_take_turns() -> None:
    def execute(writer: Writer) -> None:
        writer.merge(notes("m0", "m1", "m2"))
        writer.merge(notes("n0", "n1", "n2"))
        writer.write(note("b"))

    assert await read(create(execute)) == ["b", "m0", "n0", "m1", "n1", "m2", "n2"]


@pytest.mark.obligation("003-39")
async def test_an_execute_that_waits_writes_after_what_was_ready_meanwhile() -> None:
    ended = asyncio.Event()

    async def merged() -> AsyncIterator[dict[str, Any]]:
        async for chunk in notes("m0", "m1", "m2"):
            yield chunk
        ended.set()

    async def execute(writer: Writer) -> None:
        await writer.write(note("a"))
        writer.merge(merged())
        await writer.write(note("b"))
        await ended.wait()
        await writer.write(note("c"))

    assert await read(create(execute)) == ["a", "b", "m0", "m1", "m2", "c"]


@given(st.lists(st.integers(0, ROOM + 5), max_size=4), st.booleans())
def test_each_stream_keeps_its_own_order_and_loses_nothing(lengths: list[int], awaits: bool) -> None:
    async def execute(writer: Writer) -> None:
        for stream, length in enumerate(lengths):
            writer.merge(notes(*((stream, n) for n in range(length))))
        for n in range(5):
            written = writer.write(note(("own", n)))
            if awaits:
                await written

    seen = asyncio.run(read(create(execute)))
    assert len(seen) == sum(lengths) + 5
    for stream, length in [*enumerate(lengths), ("own", 5)]:
        assert [n for name, n in seen if name == stream] == list(range(length))


async def test_a_stream_may_be_merged_after_execute_has_returned_while_another_is_open() -> None:
    def execute(writer: Writer) -> None:
        async def first() -> AsyncIterator[dict[str, Any]]:
            yield note("first")
            writer.merge(notes("second"))

        writer.merge(first())

    assert await read(create(execute)) == ["first", "second"]


async def test_whatever_a_turn_may_return_can_be_merged() -> None:
    def plain() -> Iterator[Any]:
        yield "he"
        yield "llo"
        yield note("between")
        yield "bye"

    def execute(writer: Writer) -> None:
        writer.merge(plain())

    ids = iter(["message", "t1", "t2"])
    assert await read(create(execute, generate_id=lambda: next(ids))) == [
        {"type": "text-start", "id": "t1"},
        {"type": "text-delta", "id": "t1", "delta": "he"},
        {"type": "text-delta", "id": "t1", "delta": "llo"},
        {"type": "text-end", "id": "t1"},
        "between",
        {"type": "text-start", "id": "t2"},
        {"type": "text-delta", "id": "t2", "delta": "bye"},
        {"type": "text-end", "id": "t2"},
    ]


async def test_a_chunk_is_taken_as_it_was_when_it_was_written() -> None:
    def execute(writer: Writer) -> None:
        status = {"status": "searching"}
        part = {"type": "data-note", "id": "s", "data": status}
        writer.write(part)
        status["status"] = "found"
        part["id"] = "t"
        writer.write(part)
        writer.write(TextStart(id="1"))

    assert await read(create(execute)) == [
        {"status": "searching"},
        {"status": "found"},
        {"type": "text-start", "id": "1"},
    ]


# -- failures ----------------------------------------------------------------------------------------------------


async def test_a_failure_of_execute_is_one_error_chunk_with_a_safe_text() -> None:
    async def execute(writer: Writer) -> None:
        writer.write(note("a"))
        raise ValueError("a secret")

    assert await read(create(execute)) == ["a", f"!{SAFE_TEXT}"]
    assert await read(create(execute, on_error=lambda error: f"told: {error}")) == ["a", "!told: a secret"]


async def test_a_chat_errors_text_is_shown_as_it_is() -> None:
    def execute(writer: Writer) -> None:
        raise ChatError("the kitchen is closed")

    assert await read(create(execute)) == ["!the kitchen is closed"]


async def test_a_failing_merge_leaves_the_rest_running() -> None:
    failed = asyncio.Event()

    def text(error: BaseException) -> str:
        failed.set()
        return str(error)

    async def execute(writer: Writer) -> None:
        writer.merge(failing("m"))
        await failed.wait()
        writer.write(note("after"))
        raise ValueError("x")

    assert await read(create(execute, on_error=text)) == ["m", "!the merged secret", "after", "!x"]


async def test_an_on_error_that_raises_gives_the_safe_text() -> None:
    def on_error(error: BaseException) -> str:
        raise RuntimeError("worse")

    def execute(writer: Writer) -> None:
        assert writer.on_error(ValueError("secret")) == SAFE_TEXT
        writer.merge(failing())

    assert await read(create(execute, on_error=on_error)) == [f"!{SAFE_TEXT}"]


async def test_something_that_is_no_chunk_is_refused_where_it_is_written() -> None:
    def execute(writer: Writer) -> None:
        with pytest.raises(BadChunk, match="unable to use int as a chunk"):
            writer.write(7)
        writer.write(note("fine"))

    assert await read(create(execute)) == ["fine"]


async def test_writing_and_merging_after_the_end_only_warn(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[Writer] = []
    assert await read(create(kept.append)) == []
    await kept[0].write(note("late"))
    kept[0].merge(notes("late"))
    assert [record.getMessage() for record in caplog.records] == [
        "a data-note chunk was written after the stream had ended, and is lost",
        "a stream was merged after the stream had ended, and is not read",
    ]


def test_an_execute_that_yields_is_refused_at_once() -> None:
    async def yields(writer: Writer) -> AsyncIterator[str]:
        yield "no"

    with pytest.raises(UsageError, match="execute yields"):
        create(yields)  # type: ignore[arg-type]


async def test_an_execute_that_cancels_itself_ends_without_an_error() -> None:
    async def execute(writer: Writer) -> None:
        writer.write(note("a"))
        raise asyncio.CancelledError

    assert await read(create(execute)) == ["a"]


# -- backpressure ------------------------------------------------------------------------------------------------


async def idle() -> None:
    """Let everything run that can run without the consumer."""
    for _ in range(ROOM * 4):
        await asyncio.sleep(0)


async def test_a_slow_consumer_slows_the_writer_and_the_merged() -> None:
    made = {"own": 0, "merged": 0}

    async def merged() -> AsyncIterator[dict[str, Any]]:
        while made["merged"] < ROOM * 2:
            made["merged"] += 1
            yield note("merged")

    async def execute(writer: Writer) -> None:
        writer.merge(merged())
        while made["own"] < ROOM * 2:
            made["own"] += 1
            await writer.write(note("own"))

    stream = create(execute)
    await anext(stream)
    await idle()
    assert made["own"] + made["merged"] <= ROOM + 3
    assert len(await read(stream)) == ROOM * 4 - 1
    assert made == {"own": ROOM * 2, "merged": ROOM * 2}


async def test_writes_that_are_not_awaited_are_all_kept() -> None:
    def execute(writer: Writer) -> None:
        for n in range(ROOM * 3):
            writer.write(note(n))

    assert await read(create(execute)) == list(range(ROOM * 3))


# -- the end -----------------------------------------------------------------------------------------------------


def a_short_answer(writer: Writer) -> None:
    for chunk in (
        {"type": "start"},
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "hello"},
        {"type": "text-end", "id": "1"},
        {"type": "data-gone", "data": 1, "transient": True},
        {"type": "finish", "finishReason": "stop"},
    ):
        writer.write(chunk)


async def finish_of(execute: Any, **options: Any) -> tuple[UIMessageStreamFinish, list[Any]]:
    heard: list[UIMessageStreamFinish] = []
    seen = await read(create(execute, on_finish=heard.append, generate_id=lambda: "made", **options))
    assert len(heard) == 1
    return heard[0], seen


async def test_on_finish_hears_the_message_that_the_chunks_made() -> None:
    finish, seen = await finish_of(a_short_answer, original_messages=[USER])
    assert seen[0] == {"type": "start", "messageId": "made"}
    assert finish.response_message.to_dict() == {
        "id": "made",
        "role": "assistant",
        "parts": [{"type": "text", "text": "hello", "state": "done"}],
    }
    assert [message.id for message in finish.messages] == ["u", "made"]
    assert (finish.is_continuation, finish.is_aborted, finish.finish_reason) == (False, False, "stop")


async def test_a_last_assistant_message_is_continued_and_left_as_it_was() -> None:
    old = UIMessage.from_dict({**OLD, "parts": [{"type": "data-note", "id": "n", "data": 1}]})

    def execute(writer: Writer) -> None:
        writer.write({"type": "start"})
        writer.write({"type": "data-note", "id": "n", "data": 2})

    finish, seen = await finish_of(execute, original_messages=[USER, old])
    assert seen == [{"type": "start", "messageId": "old"}, 2]
    assert finish.is_continuation
    assert [message.id for message in finish.messages] == ["u", "old"]
    assert finish.response_message.parts == [{"type": "data-note", "id": "n", "data": 2}]
    assert old.parts[0]["data"] == 1


async def test_a_start_with_another_id_is_no_continuation() -> None:
    def execute(writer: Writer) -> None:
        writer.write({"type": "start", "messageId": "other"})

    finish, _ = await finish_of(execute, original_messages=[USER, OLD])
    assert not finish.is_continuation
    assert [message.id for message in finish.messages] == ["u", "old", "other"]


async def test_an_abort_chunk_and_a_failure_are_told_apart() -> None:
    finish, _ = await finish_of(lambda writer: writer.write({"type": "abort"}))
    assert finish.is_aborted
    finish, _ = await finish_of(lambda writer: writer.merge(failing()))
    assert not finish.is_aborted


async def test_a_chunk_that_does_not_fit_is_passed_on_but_not_folded(caplog: pytest.LogCaptureFixture) -> None:
    stray = {"type": "text-delta", "id": "?", "delta": "x"}
    finish, seen = await finish_of(lambda writer: writer.write(stray))
    assert seen == [stray]
    assert finish.response_message.parts == []
    assert "on_finish will not see a chunk" in caplog.text


async def test_an_async_on_finish_is_awaited_and_its_failure_fails_the_stream() -> None:
    async def on_finish(finish: UIMessageStreamFinish) -> None:
        await asyncio.sleep(0)
        raise ValueError("not saved")

    with pytest.raises(ValueError, match="not saved"):
        await read(create(a_short_answer, on_finish=on_finish))


async def test_generated_ids_are_distinct() -> None:
    first, second = [await read(create(a_short_answer)) for _ in range(2)]
    assert first[0]["messageId"] != second[0]["messageId"]


# -- leaving early -----------------------------------------------------------------------------------------------


class Watched:
    """An execute with a merged stream, both of which wait for ever; and what became of them."""

    def __init__(self) -> None:
        self.ended: list[str] = []
        self.finishes: list[UIMessageStreamFinish] = []
        self.reached = asyncio.Event()

    async def _merged(self) -> AsyncIterator[dict[str, Any]]:
        try:
            yield note("m")
            self.reached.set()
            await asyncio.Event().wait()
        finally:
            self.ended.append("merged")

    async def execute(self, writer: Writer) -> None:
        try:
            writer.merge(self._merged())
            await asyncio.Event().wait()
        finally:
            self.ended.append("execute")


async def test_cancelling_the_reader_cancels_everything_and_on_finish_hears_of_it() -> None:
    watched = Watched()
    reader = asyncio.create_task(read(create(watched.execute, on_finish=watched.finishes.append)))
    await watched.reached.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert sorted(watched.ended) == ["execute", "merged"]
    assert [(finish.is_aborted, finish.response_message.parts) for finish in watched.finishes] == [(True, [note("m")])]


async def test_closing_the_stream_cancels_everything_even_if_on_finish_raises(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def on_finish(finish: UIMessageStreamFinish) -> None:
        raise ValueError("not saved")

    watched = Watched()
    stream = create(watched.execute, on_finish=on_finish)
    assert await anext(stream) == note("m")
    await stream.aclose()
    assert sorted(watched.ended) == ["execute", "merged"]
    assert "on_finish raised after the stream was left" in caplog.text
    await idle()


async def test_a_failure_while_everything_is_cancelled_is_not_written_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def execute(writer: Writer) -> None:
        writer.write(note("a"))
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("while leaving")

    stream = create(execute)
    await anext(stream)
    await stream.aclose()
    assert "after the stream had ended" not in caplog.text
    assert "a stream failed" in caplog.text


async def test_a_stream_that_is_left_while_it_waits_for_room_is_closed_too() -> None:
    ended = asyncio.Event()

    async def endless() -> AsyncIterator[dict[str, Any]]:
        try:
            while True:
                yield note("m")
        finally:
            ended.set()

    stream = create(lambda writer: writer.merge(endless()))
    await anext(stream)
    await idle()
    await stream.aclose()
    assert ended.is_set()
    await idle()


async def test_nothing_runs_before_the_first_chunk_is_asked_for() -> None:
    called: list[Writer] = []
    stream = create(called.append)
    await asyncio.sleep(0)
    assert called == []
    assert await read(stream) == []
    assert len(called) == 1


# -- inside a turn -----------------------------------------------------------------------------------------------


@pytest.mark.obligation("003-39")
async def test_a_turn_can_be_answered_with_it() -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            async def execute(writer: Writer) -> None:
                asked = self.messages[-1].text
                writer.write({"type": "data-sources", "id": "s", "data": "searching"})
                writer.merge(_tokens("you said ", asked))
                writer.write({"type": "data-sources", "id": "s", "data": "found"})

            return create(execute, original_messages=self.messages)

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([USER])
        assert result.status == "completed"
        answer = serving.agent.messages[-1]
        assert answer.text == "you said hi"
        assert [part["data"] for part in answer.parts if part["type"] == "data-sources"] == ["found"]


async def test_a_failing_execute_fails_the_turn_with_the_text_of_the_chunk() -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return create(lambda writer: writer.merge(failing("m")))

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([USER])
        assert (result.status, result.error) == ("error", SAFE_TEXT)


async def test_aborting_the_turn_cancels_what_writes() -> None:
    watched = Watched()

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return create(watched.execute, on_finish=watched.finishes.append)

    async with served(Chat) as serving:
        saving = asyncio.create_task(serving.agent.save_messages([USER]))
        await watched.reached.wait()
        await serving.agent.abort_all_requests()
        assert (await saving).status == "aborted"
    assert sorted(watched.ended) == ["execute", "merged"]
    assert [finish.is_aborted for finish in watched.finishes] == [True]


async def _tokens(*tokens: str) -> AsyncIterator[str]:
    for token in tokens:
        yield token
