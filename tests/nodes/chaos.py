"""Three nodes under load, and faults drawn by a seed: kill, pause, stop, cut, swallow, delay, restart of the database.

`python -m tests.nodes.chaos --faults 200 --seed 7` runs for long and says what it found.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from everyword.client import ChatClient, ClientError
from tests.nodes.chaos_clients import Crowd, pass_time
from tests.nodes.history import History, LogEvent
from tests.nodes.serving import NodeProcess, print_tasks
from tests.postgres.server import OwnPostgres
from tests.tcp_proxy import TcpProxy

__all__ = ["Chaos", "run_chaos"]

LEASE: Final = 1.5
NODES: Final = 3
CHATS: Final = 4
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
        self.crowd = Crowd(self._nodes, self.history, random.Random(self._random.random()))
        self._last = "the start"
        self.owners = 0
        """How often an agent was loaded."""

    async def run(self, faults: int) -> list[str]:
        """Inject so many faults, let all come to rest; return what must not be."""
        async with self._started():
            crowd = self.crowd
            ways = [crowd.ask, crowd.watch, crowd.stay]
            clients = [asyncio.create_task(use(f"chat{chat}")) for chat in range(CHATS) for use in ways]
            for _ in range(faults):
                await self._fault()
            crowd.end()
            _, hanging = await asyncio.wait(clients, timeout=PATIENCE)
            self.history.failed += [f"a client has not ended after {PATIENCE} s: {task}" for task in hanging]
            if hanging:
                self._say_what_is_awaited()
            for task in clients:
                task.cancel()
            await asyncio.gather(*clients, return_exceptions=bool(hanging))
            await self._until_quiet()
            await self._look_at_ends()
            log = await self._read_log()
            await self._stop_all()
        self.owners = len({(event.agent, event.epoch) for event in log})
        return self.history.violations(log)

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

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _until_quiet(self) -> None:
        """Wait until nothing is left to do, and the only nodes are those that run."""
        await self._until_none(
            **{
                "open turns": "select agent, turn from everyword.turn where ended_at is null",
                "wake times": "select agent, at from everyword.wake",
                "dead nodes": "select id, name from everyword.node n where state <> 'gone' and exists "
                "(select from everyword.node m where m.name = n.name and m.id > n.id)",
            }
        )

    async def _look_at_ends(self) -> None:
        for chat in (f"chat{number}" for number in range(CHATS)):
            for node in self._nodes:
                try:
                    async with ChatClient(node.url, "paced", chat, connect_timeout=PATIENCE) as client:
                        self.history.final[chat][node.name] = [(m.id, m.role, m.text) for m in client.messages]
                except ClientError as exc:
                    self.history.failed.append(f"{chat} on {node.name}: {exc}")
                    self._say_what_is_awaited()

    def _say_what_is_awaited(self) -> None:
        """Have all nodes and clients say on standard error what they wait for."""
        print_tasks()
        for node in self._nodes:
            os.kill(node.pid, signal.SIGUSR1)

    async def _stop_all(self) -> None:
        """Stop all nodes; note the tasks, sessions and leases that they leave behind."""
        told = await asyncio.gather(*(node.stop() for node in self._nodes))
        self.history.failed += [f"a node said: {each}" for each in told if each]
        await self._until_none(
            **{
                "leases": "select id, name from everyword.node where state <> 'gone' and until > clock_timestamp()",
                "owned agents": "select a.id from everyword.agent a join everyword.node n on n.id = a.node "
                "where n.state <> 'gone' and n.until > clock_timestamp()",
                "sessions": "select query from pg_stat_activity where application_name = 'everyword'",
            }
        )

    async def _until_none(self, **questions: str) -> None:
        """Wait until none of the questions has rows; note what is left after a long time."""
        until = asyncio.get_running_loop().time() + PATIENCE
        for what, question in questions.items():
            while rows := await self._query(question):
                if asyncio.get_running_loop().time() > until:
                    self.history.failed.append(f"left at the end: {what}: {[tuple(row) for row in rows]}")
                    break
                await pass_time(0.1)

    async def _read_log(self) -> list[LogEvent]:
        rows = await self._query(
            "select a.id, e.seq, e.more, e.epoch, e.at, e.kind, e.turn, "
            "case when e.kind <> 'chunk' then e.body else '' end from everyword.event e "
            "join everyword.agent a on a.key = e.agent order by a.id, e.seq"
        )
        return [LogEvent(*row) for row in rows]

    async def _query(self, question: str) -> list[Any]:
        connection = await self._postgres.connect("everyword")
        try:
            return list(await connection.fetch(question))
        finally:
            await connection.close()

    # -- faults ------------------------------------------------------------------------------------------------------

    async def _fault(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self.crowd.news()
        except TimeoutError:
            self.history.failed.append(f"no client saw anything for {PATIENCE} s after {self._last}")
        kind = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        number = self._random.randrange(NODES)
        self.faults[kind] += 1
        self._last = f"{kind} of n{number}"
        sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S.%f} {self._last}\n")
        fault: Callable[[int], Awaitable[None]] = getattr(self, f"_{kind}")
        await fault(number)

    async def _for_a_while(self, leases: float = 1.5) -> None:
        """Let some time pass, drawn: a fault may be shorter than a lease, or longer."""
        await pass_time(self._random.uniform(0.05, leases * LEASE))

    async def _kill(self, number: int) -> None:
        await self._nodes[number].kill()
        await self._for_a_while()
        await self._nodes[number].start()

    async def _pause(self, number: int) -> None:
        self._nodes[number].pause()
        await self._for_a_while(2.5)
        self._nodes[number].resume()

    async def _stop(self, number: int) -> None:
        if said := await self._nodes[number].stop():
            self.history.failed.append(f"n{number} was told to stop, and said: {said}")
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
    told = f"{questions} questions, {chaos.owners} loadings, {chaos.crowd.sockets} plain sockets"
    lines = [f"seed {given.seed}: {given.faults} faults {dict(chaos.faults)}, {told}", *violations]
    sys.stdout.write("\n".join([*lines, f"{len(violations)} violations", ""]))
    return 1 if violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
