"""Starting and stopping: alone, mounted, with and without a lifespan, and when the log cannot be used."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from everyword.agents import AIChatAgent
from everyword.cli.playground import playground
from everyword.errors import LogLocked, LogUnavailable, UsageError
from everyword.log.memory import MemoryLog
from everyword.log.postgres.store import PostgresLog
from everyword.log.sqlite.store import SqliteLog
from everyword.server import Connecting, Everyword, Principal
from everyword.server.stores import open_store
from everyword.testing import Gate
from tests.server.kit import ask, chat, connect, folded, question, scripted, serving, talking, text_of


class CountingLog(MemoryLog):
    """Counts how often it is opened and closed, and may fail to open."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.opened = self.closed = 0
        self.failures = failures

    async def open(self) -> None:
        self.opened += 1
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise LogUnavailable("unable to open the store; /secret/path is full")
        await super().open()

    async def aclose(self) -> None:
        self.closed += 1
        await super().aclose()


async def test_mounted_without_a_lifespan_it_starts_once_at_the_first_request() -> None:
    store = CountingLog()
    app = chat(scripted(["Hello"]), store=store)
    outer = Starlette(routes=[Mount("/api", app)])
    async with serving(outer) as url, connect(f"{url}/api/agents/chat/ann") as client:
        assert store.opened == 0
        answers = await asyncio.gather(*(client.get("get-messages") for _ in range(20)))
        assert [answer.status_code for answer in answers] == [200] * 20
        assert store.opened == 1
        assert text_of(folded((await ask(client)).chunks)) == "Hello"
        await app.aclose()
    assert store.closed == 1


async def test_mounted_with_its_lifespan_it_starts_and_stops_with_the_outer_application() -> None:
    store = CountingLog()
    app = chat(scripted(["Hello"]), store=store, base_path="bots")
    outer = Starlette(routes=[Mount("/api", app)], lifespan=app.lifespan)
    async with serving(outer) as url, connect(f"{url}/api/bots/chat/ann") as client:
        assert store.opened == 1
        assert text_of(folded((await ask(client)).chunks)) == "Hello"
    assert (store.opened, store.closed) == (1, 1)


@pytest.mark.parametrize("base_path", ["/", "", "//"])
async def test_agents_can_be_at_the_root_alone_mounted_and_behind_the_playground(base_path: str) -> None:
    app = chat(scripted(["Hello"]), base_path=base_path)
    app.is_development = True
    assert app.base_path == ""
    outer = Starlette(routes=[Mount("/api", app)], lifespan=app.lifespan)
    for shown, prefix in ((app, ""), (outer, "/api"), (playground(app), "")):
        async with serving(shown) as url, connect(url) as client:
            answer = await client.post(f"{prefix}/chat/ann/chat", json=question())
            assert answer.status_code == 200 and "Hello" in answer.text
            missing = (await client.get(f"{prefix}/nobody/ann/get-messages")).text
            assert "agents are at /{kind}/{name}, and the kinds here are: chat" in missing
            assert (await client.get(f"{prefix}/healthz")).status_code == 200
            if shown is not app and shown is not outer:
                assert (await client.get("/settings.json")).json()["basePath"] == ""
                listed = (await client.get("/playground/agents")).json()["agents"]
                assert [(each["kind"], each["name"]) for each in listed] == [("chat", "ann")]
                assert "<title>" in (await client.get("/")).text


async def test_it_can_be_used_without_any_server_and_used_again() -> None:
    store = CountingLog()
    app = chat(scripted(["Hello"]), store=store)
    for _ in range(2):
        async with app:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost/agents/chat/ann") as client:
                assert (await client.get("get-messages")).status_code == 200
    assert (store.opened, store.closed) == (2, 2)


async def test_a_request_that_is_let_in_after_the_end_does_not_start_it_again() -> None:
    gate, store = Gate(), CountingLog()

    async def authorize(connecting: Connecting) -> Principal:
        await gate.wait()
        return Principal("ann")

    app = chat(scripted(["Hello"]), store=store, authorize=authorize)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/agents/chat/ann") as client:
        async with app:
            asking = asyncio.create_task(client.get("get-messages"))
            await gate.reached.wait()
        gate.open()
        assert (await asking).status_code == 503
        health = await client.get("http://localhost/healthz")
        assert (health.status_code, health.json()) == (503, {"status": "stopping"})
        with pytest.raises(UsageError, match="not running"):
            await app.get(app.classes["chat"], "ann").load()
    assert (store.opened, store.closed) == (1, 1)


async def test_concurrent_closes_wait_for_the_same_end_and_allow_a_new_start() -> None:
    store = CountingLog()
    app = chat(scripted(["Hello"]), store=store)
    await app.start()

    async def closes_and_starts_again() -> None:
        await app.aclose()
        await app.start()

    await asyncio.gather(closes_and_starts_again(), app.aclose())
    assert (store.opened, store.closed) == (2, 1)
    await app.aclose()
    await app.aclose()
    assert (store.opened, store.closed) == (2, 2)


async def test_what_a_stopped_process_left_open_is_finished_by_the_next_without_any_client(tmp_path: Path) -> None:
    gate = Gate()
    store = str(tmp_path / "log.db")
    async with talking(chat(scripted(["Hel", gate]), store=store)) as client:
        headers = {"prefer": "respond-async", "idempotency-key": "r1"}
        assert (await client.post("chat", json=question(), headers=headers)).status_code == 202
        await gate.reached.wait()
    async with talking(chat(scripted(["lo"]), store=store)) as client:
        async with asyncio.timeout(10):
            reader = await ask(client, idempotency_key="r1")
        assert text_of(folded(reader.chunks)) == "Hello"


async def test_agents_of_a_kind_that_is_not_served_any_more_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = Gate()
    store = str(tmp_path / "log.db")
    async with talking(chat(scripted(["Hel", gate]), store=store)) as client:
        await client.post("chat", json=question(), headers={"prefer": "respond-async"})
        await gate.reached.wait()

    class Other(AIChatAgent):
        pass

    async with talking(chat(Other, store=store)) as client:
        assert "no class of kind 'chat' is served here" in caplog.text
        answer = await client.get("get-messages")
        assert (answer.status_code, answer.text) == (404, "unable to find an agent of kind 'chat'\n")


async def test_a_log_that_cannot_be_opened_fails_the_start_with_its_sentence() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    app = chat(scripted(["x"]), store=CountingLog(failures=1))
    await app({"type": "lifespan"}, receive, send)
    assert sent == [{"type": "lifespan.startup.failed", "message": "unable to open the store; /secret/path is full"}]


async def test_a_start_at_the_first_request_that_fails_is_tried_again_at_the_next() -> None:
    app = chat(scripted(["Hello"]), store=CountingLog(failures=1))
    outer = Starlette(routes=[Mount("/", app)])
    async with serving(outer) as url, connect(f"{url}/agents/chat/ann") as client:
        answer = await client.get("get-messages")
        assert answer.status_code == 503
        assert "secret" not in answer.text
        assert (await client.get("get-messages")).status_code == 200
        await app.aclose()


async def test_a_log_that_fails_in_between_is_a_503_that_does_not_name_its_files() -> None:
    store = CountingLog()
    async with talking(chat(scripted(["Hello"]), store=store)) as client:
        await ask(client)

    async def fail(*_: Any) -> Any:
        raise LogUnavailable("unable to read; /secret/path is gone")

    async with talking(chat(scripted(["Hello"]), store=store)) as client:  # where the agent is not loaded
        store.conversation = fail  # type: ignore[method-assign]
        answer = await client.get("get-messages")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "secret" not in answer.text


async def test_a_second_process_on_one_file_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    async with chat(scripted(["x"]), store=path):
        with pytest.raises(LogLocked, match="stop the other server"):
            await chat(scripted(["x"]), store=SqliteLog(path, lock_timeout=0.0)).start()


def test_two_classes_of_one_kind_are_refused() -> None:
    with pytest.raises(UsageError, match="both are of kind 'chat'"):
        Everyword([scripted(["x"]), scripted(["y"])], store="memory:")


def test_a_store_is_named_in_five_ways(tmp_path: Path) -> None:
    own = MemoryLog()
    assert open_store(own, "process") is own
    assert isinstance(open_store("memory:", "process"), MemoryLog)
    assert isinstance(open_store(str(tmp_path / "a.db"), "power"), SqliteLog)
    assert isinstance(open_store(f"sqlite:///{tmp_path}/a%20b.db", "process"), SqliteLog)
    assert isinstance(open_store("postgresql://host/db", None), PostgresLog)
    with pytest.raises(UsageError, match="'mysql' store"):
        open_store("mysql://host/db", "process")


async def test_a_connection_that_is_neither_http_nor_a_socket_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="'carrier-pigeon'"):
        await chat(scripted(["x"]))({"type": "carrier-pigeon"}, None, None)  # type: ignore[arg-type]
