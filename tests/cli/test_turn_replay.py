"""A stored turn, played to a client that comes, goes and comes back anywhere: it ends up with the stored message."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from everyword.agents import AIChatAgent, Turn
from everyword.agents.tools import tool
from everyword.cli.readonly_log import ReadOnlyLog
from everyword.cli.store_access import find_turn
from everyword.cli.turn_replay import Frame, Play, Role, read_play
from everyword.core.commands import AnswerToolCall
from everyword.errors import LogCorrupt, UsageError
from everyword.ids import AgentId, CallId, RequestId, TurnId
from everyword.messages.tool_calls import ApprovalAnswer, tool_parts
from tests.cli.kit import PAY, damage
from tests.server.kit import PATIENCE, ask, chat, question, scripted

ANN = AgentId("chat/ann")
LOOK, FAIL = TurnId(3), TurnId(4)


async def _play(path: Path, turn: TurnId) -> tuple[ReadOnlyLog, Play]:
    store = ReadOnlyLog(path)
    await store.open()
    row = next(row for row in await store.turns(ANN) if row.turn == turn)
    return store, await read_play(store, ANN, turn, row.request)


async def _frames(play: Play, role: Role, at: int | None = None, back: int | None = None) -> list[Frame]:
    return [frame async for frame in play.frames(role, at, back)]


def _types(frames: list[Frame]) -> list[str]:
    return [frame.way if not frame.body else str(_json(frame)["type"]).removeprefix("cf_agent_") for frame in frames]


def _json(frame: Frame) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(frame.body)
    return decoded


def _answer(play: Play) -> dict[str, Any] | None:
    stored = play.stored
    assert stored is not None
    return next((message for message in play.messages if message["id"] == stored.id), None)


@pytest.mark.parametrize("turn", [LOOK, FAIL])
async def test_a_client_that_joins_or_is_cut_off_anywhere_shows_the_stored_message(turn: TurnId, stored: Path) -> None:
    store, play = await _play(stored, turn)
    assert play.stored is not None and play.chunks > 4
    expected = play.stored.to_dict()
    for role in ("live", "watching", "late"):
        await _frames(play, role)
        assert _answer(play) == expected, role
    for cut in range(play.chunks + 1):
        await _frames(play, "late", at=cut)
        assert _answer(play) == expected, ("late", cut)
        for back in range(cut, play.chunks + 2):
            await _frames(play, "reconnecting", at=cut, back=back)
            assert _answer(play) == expected, ("reconnecting", cut, back)
    await store.aclose()


async def _answered(path: Path) -> None:
    """Leave a store behind with a turn that asked, was approved, and went on."""
    paid = [{"type": "tool-output-available", "toolCallId": "k1", "output": "paid"}, "It is ", "paid."]
    agent = scripted(lambda turn: PAY if turn.id == "pay" else paid)
    app = chat(agent, store=str(path))
    async with (
        app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://localhost/agents/{ANN}") as client,
    ):
        await ask(client, question("u1", "pay"), idempotency_key="pay")
        async with (await app.start()).directory.attach(ANN) as loaded:
            await loaded.actor.ask(
                AnswerToolCall(CallId("k1"), ApprovalAnswer(True), RequestId("go on"), owner="page", origin="s1")
            )
        assert await app.get(agent, "ann").wait_until_stable(PATIENCE)


async def test_a_continuation_goes_on_for_every_client(tmp_path: Path) -> None:
    await _answered(tmp_path / "log.db")
    store, play = await _play(tmp_path / "log.db", TurnId(2))
    assert play.stored is not None and play.stored.text == "It is paid."
    for role in ("live", "watching", "late"):
        await _frames(play, role)
        assert _answer(play) == play.stored.to_dict(), role
    for cut in range(play.chunks + 1):
        await _frames(play, "late", at=cut)
        assert _answer(play) == play.stored.to_dict(), cut
        await _frames(play, "reconnecting", at=cut, back=cut + 2)
        assert _answer(play) == play.stored.to_dict(), cut
    await store.aclose()


class Payer(AIChatAgent):
    """Pays what a person approved, and says a word to everything else."""

    async def on_chat_message(self, turn: Turn) -> Any:
        async for step in turn.steps():
            async for chunk in step.run(PAY[:1] if turn.id == "pay" else ["A word."]):
                yield chunk

    @tool(needs_approval=True)
    async def pay(self, sum: int) -> str:
        return f"paid {sum}"


Payer.__name__ = "Chat"


async def _approved_late(path: Path) -> None:
    """Leave a store behind with a call that was approved when another question had been answered."""
    app = chat(Payer, store=str(path))
    async with (
        app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://localhost/agents/{ANN}") as client,
    ):
        await ask(client, question("u1", "pay"), idempotency_key="pay")
        await ask(client, question("u2", "else"), idempotency_key="else")
        async with (await app.start()).directory.attach(ANN) as loaded:
            await loaded.actor.ask(AnswerToolCall(CallId("k1"), ApprovalAnswer(True), RequestId("late")))
        assert await app.get(Payer, "ann").wait_until_stable(PATIENCE)


async def test_a_late_call_is_played_as_clients_were_told_of_it(tmp_path: Path) -> None:
    await _approved_late(tmp_path / "log.db")
    store, play = await _play(tmp_path / "log.db", TurnId(3))
    assert play.stored is not None and next(tool_parts(play.stored))["output"] == "paid 7"
    for role in ("live", "watching"):
        assert _types(await _frames(play, role)) == ["message_updated"]
        assert _answer(play) == play.stored.to_dict(), role
        assert [message["role"] for message in play.messages] == ["user", "assistant"] * 2
    for cut in range(play.chunks + 1):
        await _frames(play, "late", at=cut)
        assert _answer(play) == play.stored.to_dict(), cut
    assert (await find_turn(store, ANN, None)).turn == 2, "the newest that clients could watch"
    assert (await find_turn(store, ANN, "late")).turn == 3
    await store.aclose()


async def test_frames_are_those_of_the_wire(stored: Path) -> None:
    store, play = await _play(stored, LOOK)
    live = await _frames(play, "live")
    chunks = [frame for frame in live if _json(frame)["type"] == "cf_agent_use_chat_response"]
    assert [_json(frame).get("seq") for frame in chunks[:-1]] == list(range(play.chunks))
    assert _json(chunks[-1])["outcome"] == "completed"
    assert [frame.at for frame in live] == sorted(frame.at for frame in live)
    back = _types(await _frames(play, "reconnecting", at=4))
    assert back.index("lost") < back.index("opened") < back.index("stream_resuming") < back.index("stream_resume_ack")
    late = await _frames(play, "late", at=4)
    assert any(_json(frame).get("replayComplete") for frame in late if frame.body)
    over = _types(await _frames(play, "late"))
    assert over == ["opened", "chat_messages", "stream_resume_request", "stream_resume_none"]
    await store.aclose()


async def test_a_client_that_comes_after_an_error_gets_it(stored: Path) -> None:
    store, play = await _play(stored, FAIL)
    ends = [_json(frame) for frame in await _frames(play, "late") if frame.body and _json(frame).get("done")]
    assert [(end["outcome"], end["error"]) for end in ends] == [("error", True)]
    await store.aclose()


async def test_a_turn_that_is_not_there_or_cannot_be_read_is_a_sentence(stored: Path) -> None:
    await asyncio.to_thread(damage, stored, "UPDATE event SET body = x'7b' WHERE agent = 2 AND seq = 2")
    store = ReadOnlyLog(stored)
    await store.open()
    with pytest.raises(UsageError, match="it is not in the log"):
        await read_play(store, ANN, TurnId(99), RequestId("x"))
    with pytest.raises(LogCorrupt, match="unable to read event 2 of 'chat/bob'"):
        await read_play(store, AgentId("chat/bob"), TurnId(1), RequestId("pay"))
    await store.aclose()
