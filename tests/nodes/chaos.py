"""Three nodes under load, and faults drawn by a seed: kill, pause, stop, cut, swallow, delay, restart of the database.

`python -m tests.nodes.chaos --faults 200 --seed 7` runs for long and says what it found.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from everyword.client import ChatClient, ChatFailed, ClientError
from everyword.client.backoff import Backoff
from tests.nodes.history import History, LogEvent, Seen
from tests.nodes.serving import NodeProcess
from tests.postgres.server import OwnPostgres
from tests.tcp_proxy import TcpProxy

__all__ = ["Chaos", "run_chaos"]

LEASE: Final = 1.5
NODES: Final = 3
CHATS: Final = 4
CLIENTS: Final = 2
PATIENCE: Final = 120.0
"""Seconds for everything to come to rest when the faults are over."""

WEIGHTS: Final = {
    "kill": 5,
    "pause": 4,
    "stop": 3,
    "cut_database": 2,
    "swallow_database": 2,
    "cut_link": 3,
    "swallow_link": 2,
    "delay_link": 2,
    "restart_database": 1,
    "crash_database": 1,
}


class Chaos:
    """One run."""

    def __init__(self, postgres: OwnPostgres, seed: int) -> None:
        self.history, self.faults = History(), Counter[str]()
        self._postgres, self._random = postgres, random.Random(seed)
        self._nodes: list[NodeProcess] = []
        self._databases: list[TcpProxy] = []
        self._links: list[TcpProxy] = []
        self._progress = asyncio.Event()
        self._is_over = False

    async def run(self, faults: int) -> list[str]:
        """Inject so many faults, let all come to rest; return what must not be."""
        async with self._started(), asyncio.TaskGroup() as group:
            clients = [
                group.create_task(self._use(f"chat{chat}", client))
                for chat in range(CHATS)
                for client in range(CLIENTS)
            ]
            for _ in range(faults):
                await self._fault()
            self._is_over = True
            self._progress.set()
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait(clients)
                await self._look_at_ends()
        return self.history.violations(await self._read_log())

    @asynccontextmanager
    async def _started(self) -> AsyncIterator[None]:
        try:
            for number in range(NODES):
                database = await TcpProxy(self._postgres.address).__aenter__()
                self._databases.append(database)
                node = NodeProcess(database.url(self._postgres.tcp_url), f"n{number}", LEASE)
                link = await TcpProxy(("127.0.0.1", node.link_port)).__aenter__()
                self._links.append(link)
                node.address = f"127.0.0.1:{link.port}"
                self._nodes.append(node)
            await asyncio.gather(*(node.start() for node in self._nodes))
            yield
        finally:
            for node in self._nodes:
                with suppress(ProcessLookupError, AssertionError):
                    node.resume()
                await node.kill()
            for proxy in [*self._databases, *self._links]:
                await proxy.__aexit__()

    # -- clients -----------------------------------------------------------------------------------------------------

    async def _use(self, chat: str, number: int) -> None:
        """Be one client of a chat, on one node after the other; the first one asks, all of them watch."""
        count = 0
        while not self._is_over:
            node = self._random.choice(self._nodes)
            name = f"{chat}.{number}"
            with suppress(ClientError, OSError):
                async with ChatClient(node.url, "paced", chat, backoff=Backoff(first=0.05, most=0.5)) as client:
                    watching = asyncio.create_task(self._watch(client, name))
                    try:
                        for _ in range(self._random.randint(1, 3)):
                            if self._is_over:
                                break
                            if number == 0:
                                count += 1
                                await self._ask(client, chat, count)
                            else:
                                await self._some_news()
                    finally:
                        watching.cancel()
                        await asyncio.wait([watching])

    async def _ask(self, client: ChatClient, chat: str, count: int) -> None:
        question = " ".join(f"{chat}-{count}-{n}" for n in range(self._random.randint(5, 40)))
        self.history.unsure[chat].append(question)
        reply = client.send(question)
        try:
            await reply
        except ChatFailed as exc:
            self.history.failed.append(f"{chat}: {exc}")
            return
        if reply.outcome != "completed":
            self.history.failed.append(f"{chat}: a turn ended as {reply.outcome}")
        self.history.asked[chat].append(question)

    async def _watch(self, client: ChatClient, name: str) -> None:
        while True:
            for message in client.messages:
                if message.role == "assistant":
                    self.history.seen.append(Seen(name, message.id, message.text))
            self._progress.set()
            await client.connection.change()

    async def _some_news(self) -> None:
        if self._is_over:
            return  # nothing new may come any more
        self._progress.clear()
        await self._progress.wait()

    async def _look_at_ends(self) -> None:
        for chat in (f"chat{number}" for number in range(CHATS)):
            for node in self._nodes:
                async with ChatClient(node.url, "paced", chat, connect_timeout=PATIENCE) as client:
                    self.history.final[chat][node.name] = [(m.id, m.role, m.text) for m in client.messages]

    # -- faults ------------------------------------------------------------------------------------------------------

    async def _fault(self) -> None:
        kind = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        number = self._random.randrange(NODES)
        self.faults[kind] += 1
        await self._some_news()
        fault: Callable[[int], Awaitable[None]] = getattr(self, f"_{kind}")
        await fault(number)

    async def _for_a_while(self, leases: float = 1.5) -> None:
        """Let some time pass, drawn: a fault may be shorter than a lease, or longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._random.uniform(0.05, leases * LEASE)):
                await asyncio.Event().wait()

    async def _kill(self, number: int) -> None:
        await self._nodes[number].kill()
        await self._for_a_while()
        await self._nodes[number].start()

    async def _pause(self, number: int) -> None:
        self._nodes[number].pause()
        await self._for_a_while(2.5)
        self._nodes[number].resume()

    async def _stop(self, number: int) -> None:
        await self._nodes[number].stop()
        await self._nodes[number].start()

    async def _cut_database(self, number: int) -> None:
        await self._databases[number].cut()

    async def _swallow_database(self, number: int) -> None:
        await self._databases[number].swallow()
        await self._for_a_while()
        await self._databases[number].restore()

    async def _cut_link(self, number: int) -> None:
        await self._links[number].cut()

    async def _swallow_link(self, number: int) -> None:
        await self._links[number].swallow()
        await self._for_a_while()
        await self._links[number].restore()

    async def _delay_link(self, number: int) -> None:
        await self._links[number].delay(self._random.uniform(0.005, 0.1))
        await self._for_a_while()
        await self._links[number].restore()

    async def _restart_database(self, number: int) -> None:
        del number
        await self._postgres.restart("fast")

    async def _crash_database(self, number: int) -> None:
        del number
        await self._postgres.restart("immediate")

    async def _read_log(self) -> list[LogEvent]:
        connection = await self._postgres.connect("everyword")
        try:
            found = await connection.fetch(
                "select a.id, e.seq, e.more, e.epoch, e.at, e.kind, e.turn from everyword.event e "
                "join everyword.agent a on a.key = e.agent order by a.id, e.seq"
            )
            return [LogEvent(*row) for row in found]
        finally:
            await connection.close()


async def run_chaos(faults: int, seed: int, postgres: OwnPostgres) -> tuple[Chaos, list[str]]:
    """Run once; return the run and what must not be."""
    chaos = Chaos(postgres, seed)
    return chaos, await chaos.run(faults)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    postgres = OwnPostgres.started(durable=True)
    try:
        chaos, violations = asyncio.run(run_chaos(given.faults, given.seed, postgres))
    finally:
        postgres.close()
    questions = sum(len(asked) for asked in chaos.history.asked.values())
    lines = [f"seed {given.seed}: {given.faults} faults {dict(chaos.faults)}, {questions} questions", *violations]
    sys.stdout.write("\n".join([*lines, f"{len(violations)} violations", ""]))
    return 1 if violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
