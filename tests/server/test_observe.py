"""Observers get events after the commit, in order, and never delay it. And the health check."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from everyword import AIChatAgent, ChatError, Everyword, Turn
from everyword.errors import LogUnavailable
from everyword.events import TurnEnded
from everyword.ids import AgentId, Millis, Seq, TurnId
from everyword.log.base import Batch, Entry
from everyword.log.memory import MemoryLog
from everyword.log.receipt import Receipt, settle
from everyword.observe import Happened, JsonFormatter, Observer
from everyword.observe.dispatcher import EventDispatcher
from everyword.observe.logs import PlainFormatter, configure_logging
from everyword.server import Principal
from everyword.testing import Gate, LocalServer, ScriptedModel
from tests.server.kit import talking


def chatting(*answers: Any) -> type[AIChatAgent]:
    model = ScriptedModel(*answers)

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            async for chunk in model.stream(self.messages):
                yield chunk

    return Chat


async def _asked(app: Everyword, *texts: str) -> None:
    async with LocalServer(app) as server, server.client("chat") as chat:
        for text in texts:
            await asyncio.gather(chat.send(text)._last(), return_exceptions=True)


# -- the hook ---------------------------------------------------------------------------------------------------------


async def test_the_hook_is_told_what_was_committed_in_order_and_without_chunks() -> None:
    told: list[Happened] = []
    await _asked(Everyword([chatting(["Hel", "lo"])], on_event=told.append), "hi")
    assert [each.kind for each in told] == ["turn.accepted", "attempt.started", "message.ended", "turn.ended"]
    assert [each.seq for each in told] == sorted(each.seq for each in told)
    assert {each.agent for each in told} == {"chat/test"} and {each.agent_kind for each in told} == {"chat"}
    assert len({each.request for each in told}) == 1 and told[0].request is not None
    ended = told[-1]
    assert isinstance(ended.event, TurnEnded) and ended.facts is not None
    assert ended.facts.attempt == 1 and ended.facts.accepted_at is not None


async def test_the_hook_may_be_async() -> None:
    told: list[str] = []

    async def hear(happened: Happened) -> None:
        await asyncio.sleep(0)
        told.append(happened.kind)

    heard = asyncio.Event()

    async def hear_end(happened: Happened) -> None:
        await hear(happened)
        if happened.kind == "turn.ended":
            heard.set()

    async with LocalServer(Everyword([chatting("hello")], on_event=hear_end)) as server, server.client("chat") as chat:
        await chat.send("hi")
        await heard.wait()
    assert told[0] == "turn.accepted"


async def test_a_hook_that_raises_affects_nothing_else_and_is_called_again(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    def hear(happened: Happened) -> None:
        told.append(happened.kind)
        raise ValueError("broken")

    async with LocalServer(Everyword([chatting("hello")], on_event=hear)) as server, server.client("chat") as chat:
        assert (await chat.send("hi")).text == "hello"  # type: ignore[union-attr]
    assert "turn.ended" in told
    assert any("`on_event` raised" in record.message for record in caplog.records)


async def test_a_hook_that_never_returns_delays_no_answer() -> None:
    stuck = asyncio.Event()

    async def hear(happened: Happened) -> None:
        await stuck.wait()

    app = Everyword([chatting("one", "two")], on_event=hear)
    async with LocalServer(app) as server, server.client("chat") as chat:
        assert (await chat.send("a")).text == "one"  # type: ignore[union-attr]
        assert (await chat.send("b")).text == "two"  # type: ignore[union-attr]


async def test_what_a_slow_hook_has_no_room_for_is_counted_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    gate, told, is_through = Gate(), list[int](), asyncio.Event()

    async def hear(happened: Happened) -> None:
        await gate.wait()
        told.append(happened.seq)
        if len(told) == 4:
            is_through.set()

    dispatcher = EventDispatcher([hear], [], room=3)
    dispatcher.start()
    body = b'{"t":"hook.done","turn":1}'
    for seq in range(1, 11):
        dispatcher.hear(Batch(AgentId("chat/ann"), 1, Seq(seq), Millis(seq), [Entry("hook.done", TurnId(1), body)]))  # type: ignore[arg-type]
        if seq == 1:
            await gate.reached.wait()
    assert dispatcher.missed == 6
    gate.open()
    await is_through.wait()
    await dispatcher.aclose()
    assert told == [1, 2, 3, 4]
    assert sum("too slow" in record.message for record in caplog.records) == 1


async def test_a_store_that_is_used_again_is_observed_once() -> None:
    store, chat, seen = MemoryLog(), chatting("one", "two"), list[tuple[str, int]]()
    for text in ("first", "second"):
        observe = lambda happened: seen.append((happened.agent, happened.seq))  # noqa: E731
        async with Everyword([chat], store=store, on_event=observe) as app:
            question = {"id": text, "role": "user", "parts": [{"type": "text", "text": text}]}
            await app.get(chat, "ann").save_messages([question])
    assert len(seen) == len(set(seen)) > 4


@pytest.mark.parametrize("error", [None, LogUnavailable("unable to write; the disk is full")])
async def test_only_committed_batches_are_delivered(error: LogUnavailable | None) -> None:
    seen: list[int] = []
    dispatcher = EventDispatcher([lambda happened: seen.append(happened.seq)], [])
    dispatcher.start()
    receipt, entry = Receipt(), Entry("hook.done", TurnId(1), b'{"t":"hook.done","turn":1}')
    dispatcher.watch(Batch(AgentId("chat/ann"), 1, Seq(1), Millis(1), [entry]), receipt)  # type: ignore[arg-type]
    assert not seen
    receipt.error = error
    settle([receipt])
    await dispatcher.aclose()
    assert seen == ([1] if error is None else [])


async def test_an_observer_that_wants_some_events_hears_those_and_knows_the_turn_from_its_beginning() -> None:
    told: list[Happened] = []

    class Ends(Observer):
        kinds = frozenset({"turn.ended"})

        def happened(self, happened: Happened) -> None:
            told.append(happened)

    await _asked(Everyword([chatting(["Hel", "lo"])], observe=[Ends()]), "hi")
    (ended,) = told
    assert ended.kind == "turn.ended" and ended.request is not None
    assert ended.facts is not None and ended.facts.accepted_at is not None and ended.facts.attempt == 1


async def test_an_observer_of_ones_own_stands_around_answers_and_counts_chunks() -> None:
    seen: list[str] = []

    class Mine(Observer):
        wants_chunks = True

        def streamed(self, agent: Any, facts: Any, chunks: int) -> None:
            seen.append(f"{agent}: {chunks > 0}")

        def around(self, stream: Any) -> Any:
            async def around(call: Any) -> AsyncIterator[Any]:
                seen.append("before")
                async for item in stream(call):
                    yield item
                seen.append("after")

            return around

    await _asked(Everyword([chatting("hello")], observe=[Mine()]), "hi")
    assert seen[0] == "before" and "after" in seen and "chat/test: True" in seen


# -- logs -------------------------------------------------------------------------------------------------------------


async def test_a_turn_that_ends_is_a_line_with_its_facts_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "everyword.turns")
    await _asked(Everyword([chatting("hello", ChatError("No luck."))]), "hi", "and?")
    lines = [record for record in caplog.records if record.name == "everyword.turns"]
    assert [(line.agent, line.turn, line.outcome, line.attempt) for line in lines] == [  # type: ignore[attr-defined]
        ("chat/test", 1, "completed", 1),
        ("chat/test", 2, "error", 1),
    ]
    assert lines[0].request and lines[0].seconds >= 0  # type: ignore[attr-defined]
    assert lines[1].error == "No luck." and lines[1].levelname == "WARNING"  # type: ignore[attr-defined]


async def test_a_failure_is_logged_with_where_it_happened(caplog: pytest.LogCaptureFixture) -> None:
    await _asked(Everyword([chatting([ValueError("secret")])]), "hi")
    failed = next(record for record in caplog.records if "failed" in record.message)
    assert (failed.agent, failed.turn, failed.attempt) == ("chat/test", 1, 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize("created", [0.0, 0.9994, 0.9996, 59.5, 60.0, 1_700_000_000.123, 1_700_000_000.124])
def test_plain_lines_have_the_time_that_the_standard_library_gives_them(created: float) -> None:
    plain, standard = PlainFormatter(), logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    for moment in (created, created + 0.5, created + 1.5):
        record = logging.makeLogRecord({"created": moment, "msecs": moment % 1 * 1000, "msg": "here", "name": "me"})
        assert plain.format(record) == standard.format(record)


def test_records_are_json_objects_with_their_fields() -> None:
    record = logging.makeLogRecord({"name": "everyword.turns", "levelname": "INFO", "msg": "turn %d", "args": (1,)})
    record.agent, record.odd = "chat/ann", {1, 2}
    try:
        raise ValueError("broken")
    except ValueError as exc:
        record.exc_info = (ValueError, exc, exc.__traceback__)
    line = json.loads(JsonFormatter().format(record))
    assert (line["message"], line["level"], line["logger"]) == ("turn 1", "info", "everyword.turns")
    assert line["agent"] == "chat/ann" and "ValueError: broken" in line["exception"]
    assert line["time"].endswith("+00:00") and "args" not in line


@pytest.mark.parametrize("style", ["json", "text"])
def test_a_program_writes_its_log_as_it_was_told(style: str, capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure_logging(style)
        logging.getLogger("everyword.turns").info("hello", extra={"agent": "chat/ann"})
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    line = capfd.readouterr().err.strip()
    if style == "json":
        assert json.loads(line)["agent"] == "chat/ann"
    else:
        assert line.endswith("INFO everyword.turns: hello")


APP = """
from everyword import AIChatAgent, Everyword


class Chat(AIChatAgent):
    async def on_chat_message(self, turn):
        yield "hello"


app = Everyword([Chat], store="log.db")
"""


def test_the_server_writes_its_log_as_json_when_it_is_asked_to(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    command = [sys.executable, "-m", "everyword", "serve", "app.py", "--port", "0", "--log-format", "json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True) as server:
        assert server.stdout is not None and server.stderr is not None
        url = server.stdout.readline().split()[-1]
        message = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
        answer = httpx.post(f"{url}/agents/chat/ann/chat", json={"messages": [message]}, trust_env=False)
        assert answer.status_code == 200
        server.terminate()
        lines = [json.loads(line) for line in server.stderr.read().splitlines()]
    ended = next(line for line in lines if line["logger"] == "everyword.turns")
    assert (ended["agent"], ended["outcome"], ended["turn"]) == ("chat/ann", "completed", 1)


# -- health -----------------------------------------------------------------------------------------------------------


async def test_a_server_that_runs_is_ready_and_one_that_stops_says_so() -> None:
    gate = Gate()
    app = Everyword([chatting(["half", gate])], store="memory:")
    app.grace = 5.0
    async with talking(app) as client:
        url = str(client.base_url).split("/agents")[0]
        answer = await client.get(f"{url}/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
        assert answer.headers["cache-control"] == "no-store"
        asked = await client.post(
            "chat",
            json={"messages": [{"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]},
            headers={"prefer": "respond-async"},
        )
        assert asked.status_code == 202
        await gate.reached.wait()
        stopping = asyncio.create_task(app.aclose())
        while (answer := await client.get(f"{url}/healthz")).status_code == 200:
            pass
        assert (answer.status_code, answer.json()) == (503, {"status": "stopping"})
        gate.open()
        await stopping


async def test_a_log_that_takes_no_writes_is_an_illness() -> None:
    class Full(MemoryLog):
        async def prune(self, *args: Any, **more: Any) -> Any:
            raise LogUnavailable("unable to write; the disk is full")

    async with talking(Everyword([chatting("x")], store=Full())) as client:
        url = str(client.base_url).split("/agents")[0]
        answer = await client.get(f"{url}/healthz")
        assert (answer.status_code, answer.json()) == (503, {"status": "failing"})


async def test_strangers_learn_nothing_from_a_server_that_serves_this_machine_only() -> None:
    async with talking(Everyword([chatting("x")], store="memory:")) as client:
        url = str(client.base_url).split("/agents")[0]
        refused = await client.get(f"{url}/healthz", headers={"host": "example.org"})
        assert refused.status_code == 403

    async def admit(connecting: Any) -> Principal:
        return Principal("ann")

    async with talking(Everyword([chatting("x")], store="memory:", authorize=admit)) as client:
        url = str(client.base_url).split("/agents")[0]
        assert (await client.get(f"{url}/healthz", headers={"host": "example.org"})).status_code == 200
        assert (await client.post(f"{url}/healthz")).status_code == 404
