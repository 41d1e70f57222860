"""`everyword serve --workers`: several nodes behind one port of one machine, under a supervisor."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from everyword.client import AgentClient, ChatClient
from tests.cli.kit import Running, running
from tests.nodes.test_nodes import ANSWERED, WORDS, half_said, look, texts, until
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.crash

APP = """
from everyword import Everyword
from everyword.observe import Metrics
from tests.nodes.serving import Chat

app = Everyword([Chat], observe=[Metrics()])
app.grace = 0.5
"""


class Workers:
    """A supervisor with its workers."""

    def __init__(self, server: Running, url: str) -> None:
        self.server, self.url = server, url

    @property
    def processes(self) -> list[tuple[str, int]]:
        """The name and process of every worker that has served, oldest first."""
        return [(name, int(pid)) for name, pid in re.findall(r"worker (\S+) \(pid (\d+)\) serves", self.server.said)]

    async def serving(self, count: int) -> list[tuple[str, int]]:
        """Wait until so many workers have served since the start."""
        await self.server.until(rf"(?s)(\(pid \d+\) serves.*){{{count}}}")
        return self.processes

    async def process_of(self, name: str) -> int:
        """Ask an agent in which process it lives."""
        async with AgentClient(self.url, "chat", name) as client:
            pid: int = await client.call("process")
            return pid

    async def agents_on_all(self, count: int) -> dict[int, str]:
        """Use agents until each of so many processes owns one; return one agent of each process."""
        found: dict[int, str] = {}
        async with asyncio.timeout(PATIENCE):
            while len(found) < count:
                names = [f"agent-{len(found)}-{os.urandom(3).hex()}" for _ in range(8)]
                for name, pid in zip(names, await asyncio.gather(*map(self.process_of, names)), strict=True):
                    found[pid] = name
        return found


@asynccontextmanager
async def running_workers(store: str, folder: Path, count: int = 2) -> AsyncIterator[Workers]:
    (folder / "app.py").write_text(APP, encoding="utf-8")
    async with running(
        "serve", "app.py", "--port", "0", "--workers", f"{count}", "--store", store, folder=folder
    ) as it:
        workers = Workers(it, await it.url())
        await workers.serving(count)
        try:
            yield workers
        finally:  # the workers stop by themselves when the supervisor is killed; the test need not wait for them
            for _, pid in workers.processes:
                _kill(pid)


@pytest.fixture(autouse=True)
def _lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERYWORD_NODE_LEASE", "1.5")


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def _ended(pid: int) -> None:
    """Wait for the end of a process that is not a child of this one."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(watched, ended.set)
    try:
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
    finally:
        loop.remove_reader(watched)
        os.close(watched)


async def test_workers_behind_one_port_share_agents(postgres_url: str, tmp_path: Path) -> None:
    async with running_workers(postgres_url, tmp_path) as workers:
        host = socket.gethostname()
        assert [name for name, _ in workers.processes] == [f"{host}-1", f"{host}-2"]
        owned = await workers.agents_on_all(2)
        assert owned.keys() == {pid for _, pid in workers.processes}
        for pid, name in owned.items():
            async with AsyncExitStack() as stack:
                clients = [await stack.enter_async_context(AgentClient(workers.url, "chat", name)) for _ in range(6)]
                assert [await client.call("count") for client in clients] == [1, 2, 3, 4, 5, 6]
                assert {await client.call("process") for client in clients} == {pid}


async def test_a_killed_workers_turn_goes_on_and_the_worker_is_back(postgres_url: str, tmp_path: Path) -> None:
    async with running_workers(postgres_url, tmp_path) as workers, ChatClient(workers.url, "chat", "a") as asker:
        asker.send(WORDS, body={"hold": 1})
        await until(half_said(asker), asker)
        killed = await workers.process_of("a")
        (name,) = [name for name, pid in workers.processes if pid == killed]
        os.kill(killed, signal.SIGKILL)
        await until(lambda: texts(asker) == ANSWERED, asker)
        await workers.server.until(rf"worker {name} \(pid {killed}\) was killed by SIGKILL; starting it again")
        back = (await workers.serving(3))[-1]
        assert back[0] == name and back[1] != killed
        assert back[1] in await workers.agents_on_all(2), "it takes connections and agents"


async def test_a_rolling_restart_during_turns_loses_nothing(postgres_url: str, tmp_path: Path) -> None:
    names = [f"chat-{n}" for n in range(6)]
    async with running_workers(postgres_url, tmp_path) as workers, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ChatClient(workers.url, "chat", name)) for name in names]
        for client in clients:
            client.send(WORDS, body={"hold": 1})
        for client in clients:
            await until(half_said(client), client)
        before = workers.processes
        workers.server.process.send_signal(signal.SIGHUP)
        for client in clients:
            await until(lambda client=client: texts(client) == ANSWERED, client)
        await workers.server.until("all workers are replaced")
        after = workers.processes[2:]
        assert [name for name, _ in after] == [name for name, _ in before]
        assert not any(_lives(pid) for _, pid in before) and all(_lives(pid) for _, pid in after)
        for client in clients:
            assert (await client.send("one more")).text == "one more "
        ends = await look(
            postgres_url, "select count(*), count(distinct agent) from everyword.event where kind = 'turn.ended'"
        )
        assert ends == [(12, 6)]


async def test_a_signal_ends_all_workers_and_frees_the_port(postgres_url: str, tmp_path: Path) -> None:
    async with running_workers(postgres_url, tmp_path) as workers:
        folders = {url.rpartition("/")[0] for (url,) in await look(postgres_url, "select url from everyword.node")}
        (folder,) = [Path(each.removeprefix("unix:")) for each in folders]
        assert folder.is_dir()
        workers.server.process.send_signal(signal.SIGTERM)
        assert await workers.server.ended() == 0
        assert not any(_lives(pid) for _, pid in workers.processes)
        assert await look(postgres_url, "select distinct state from everyword.node") == [("gone",)]
        assert not folder.exists()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", int(workers.url.rpartition(":")[2]))


async def test_any_worker_tells_the_health_and_the_metrics_of_all(postgres_url: str, tmp_path: Path) -> None:
    async with running_workers(postgres_url, tmp_path) as workers, httpx.AsyncClient(base_url=workers.url) as client:
        owned = await workers.agents_on_all(2)
        names = [name for name, _ in workers.processes]
        async with asyncio.timeout(PATIENCE):
            while True:  # they learn of each other with the next heartbeat
                health = (await client.get("/healthz")).json()
                if [each["name"] for each in health["nodes"]] == names:
                    break
        assert health["status"] == "ready" and {each["state"] for each in health["nodes"]} == {"up"}
        for name in owned.values():
            async with ChatClient(workers.url, "chat", name) as chat:
                await chat.send("hello")
        counted = {f'everyword_turns_total{{kind="chat",node="{name}",outcome="completed"}} 1.0' for name in names}
        async with asyncio.timeout(PATIENCE):
            while not counted <= set((await client.get("/metrics")).text.splitlines()):
                pass  # commits are counted soon after they are made


async def test_workers_end_when_their_supervisor_was_killed(postgres_url: str, tmp_path: Path) -> None:
    async with running_workers(postgres_url, tmp_path) as workers:
        workers.server.process.kill()
        for _, pid in workers.processes:
            await _ended(pid)
        assert await look(postgres_url, "select distinct state from everyword.node") == [("gone",)], "they drained"


BROKEN = {
    "the app raises": ("app = 1 / 0\n", "ZeroDivisionError"),
    "a file as the store": (APP, "unable to run 3 workers; the store 'everyword.db' belongs to one process"),
    "a bad address": (APP.replace("[Chat],", "[Chat], store='postgresql://db/?schema=A',"), "unable to use schema 'A'"),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_an_app_that_cannot_start_is_reported_once(case: str, tmp_path: Path) -> None:
    source, said = BROKEN[case]
    (tmp_path / "app.py").write_text(source, encoding="utf-8")
    async with running("serve", "app.py", "--port", "0", "--workers", "3", folder=tmp_path) as server:
        assert await server.ended() in (1, 2)
        assert server.process.stdout is not None
        told = (await server.process.stdout.read()).decode()
        assert told.count(said) == 1 and "serves" not in told
