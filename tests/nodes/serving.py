"""Nodes in processes of their own, which a test kills, pauses and stops: they share one PostgreSQL store."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import uvicorn

from everyword import AttachmentOptions, Connecting, NotificationOptions, Principal, Webhook
from everyword.agents import AIChatAgent, Turn, callable_method
from everyword.log.features import is_usable
from everyword.server import Everyword, Limits
from everyword.server.node_settings import NodeSettings
from tests.continuing_agents import ContinuingChat, words_left
from tests.forked_processes import ForkedProcess, fork_process
from tests.free_ports import free_port
from tests.nodes.releases import FEATURE, NEW, OLD, play_release
from tests.server.receivers import SECRET

PACE = 0.02
"""Seconds between two words of `Paced`."""

SLOW_PACE = 0.25
"""Seconds between two words of `Endless`, of which a hundred speak at the same time."""

LEASE = 1.5
"""Seconds: short, so that a takeover is soon; a busy machine may take a node for dead, which changes no result."""


NOTICE = timedelta(seconds=0.5)
"""The delay of notifications."""


class Chat(ContinuingChat):
    """Has methods and a schedule, too."""

    initial_state: ClassVar = {"count": 0}

    @callable_method
    async def process(self) -> int:
        """Return the process that this agent lives in."""
        return os.getpid()

    @callable_method
    async def count(self) -> int:
        self.set_state({"count": self.state["count"] + 1})
        return int(self.state["count"])

    @callable_method
    async def wake_in(self, seconds: float) -> None:
        await self.schedule(seconds, "woken", {"by": "schedule"})

    async def woken(self, payload: dict[str, Any]) -> None:
        self.set_state({**self.state, "woken": self.state.get("woken", 0) + 1, "by": payload["by"]})


class Paced(AIChatAgent):
    """Says the words of the question slowly enough that faults come in between. Has jobs, too."""

    max_attempts = 1000
    initial_state: ClassVar = {"woken": 0}

    @callable_method
    async def wake_in(self, seconds: float) -> None:
        await self.schedule(seconds, "woken", {})

    async def woken(self, payload: dict[str, Any]) -> None:
        del payload
        self.set_state({"woken": self.state["woken"] + 1})

    async def on_chat_message(self, turn: Turn) -> Any:
        for _, word in words_left(self):
            with suppress(TimeoutError):
                async with asyncio.timeout(PACE):
                    await turn.cancelled
            yield word


class Endless(AIChatAgent):
    """Says 0, 1, 2, … until the file exists that the question names. As the new release, it uses the new feature."""

    app: ClassVar[Everyword]
    knows_feature: ClassVar = False

    async def on_chat_message(self, turn: Turn) -> Any:
        end = Path(next(m for m in reversed(self.messages) if m.role == "user").text)
        said = self.messages[-1].text if self.messages[-1].role == "assistant" else ""
        has_used_feature = False
        for number in itertools.count(len(said.split())):
            has_used_feature = has_used_feature or await self._use_feature()
            with suppress(TimeoutError):
                async with asyncio.timeout(SLOW_PACE):
                    await turn.cancelled
            yield f"{number} "
            if end.exists():  # noqa: ASYNC240 - a local file
                return

    async def _use_feature(self) -> bool:
        """Use it, if that is allowed by now; return whether it was."""
        if not self.knows_feature or not await is_usable(FEATURE, (await self.app.service()).directory.store.nodes):
            return False
        self.set_state({"release": "new"})
        return True


class NodeProcess:
    """One node. It can be killed, paused, told to stop, and started again on the same port."""

    def __init__(self, store: str, name: str, lease: float = LEASE, webhook: str = "", attachments: str = "") -> None:
        self._store, self.name, self._lease, self.webhook = store, name, lease, webhook
        self._attachments = attachments
        self.port, self.link_port = free_port(), free_port()
        self.address = f"127.0.0.1:{self.link_port}"
        """Where other nodes are told that it is."""
        self.release = OLD
        """The version of the release that it runs from its next start on."""
        self._process: ForkedProcess | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        def start() -> None:
            link = f"127.0.0.1:{self.link_port}"
            arguments = self._store, str(self.port), self.name, str(self._lease), link, self.address, str(self.release)
            self._process = fork_process(
                "tests.nodes.serving", *arguments, WEBHOOK=self.webhook, ATTACHMENTS=self._attachments
            )
            self._process.until_ready()

        await asyncio.to_thread(start)

    async def kill(self) -> None:
        """Kill it with SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(process.kill)

    async def stop(self) -> str:
        """Tell it to stop, as a deployment does, and wait for its end; return what it complained about."""
        process, self._process = self._process, None
        if process is None:
            return ""
        try:
            return await asyncio.to_thread(process.stop)
        except AssertionError as exc:
            await asyncio.to_thread(process.kill)
            return str(exc)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


@asynccontextmanager
async def running_nodes(
    store: str, *names: str, lease: float = LEASE, webhook: str = "", attachments: str = ""
) -> AsyncIterator[list[NodeProcess]]:
    """Run nodes with these names over one store.

    Notifications are posted to `webhook`, and attachments are in the folder `attachments`, if they are given.
    """
    nodes = [NodeProcess(store, name, lease, webhook, attachments) for name in names]
    try:
        await asyncio.gather(*(node.start() for node in nodes))
        yield nodes
    finally:
        await asyncio.gather(*(node.kill() for node in nodes))


class _Announced(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        os.write(1, b"ready\n")


def as_it_says(connecting: Connecting) -> Principal:
    """A client is the user that its query names."""
    return Principal(connecting.request.query_params.get("user", "local"))


def main(store: str, port: str, name: str, lease: str, listen: str, address: str, release: str) -> None:
    """Serve until the process is killed or told to stop."""
    play_release(int(release))
    logging.basicConfig(format=f"%(asctime)s {name} %(message)s", level=logging.WARNING)
    settings = NodeSettings(name=name, lease=float(lease), listen=listen, address=address)
    limits = Limits(requests_per_minute=10**6, frames_per_minute=10**6)
    url = os.environ.get("WEBHOOK")
    notifications = NotificationOptions(webhooks=[Webhook(url, SECRET)], delay=NOTICE) if url else None
    app = Everyword(
        [Chat, Endless, Paced],
        store=store,
        node=settings,
        limits=limits,
        authorize=as_it_says,
        notifications=notifications,
        attachments=AttachmentOptions(store=os.environ.get("ATTACHMENTS") or None),
    )
    Endless.app, Endless.knows_feature = app, int(release) == NEW
    app.grace = 0.5
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=int(port),
        ws="everyword.server.uvicorn_websocket:UvicornWebSocketProtocol",
        log_level=os.environ.get("LOG", "warning"),
        timeout_graceful_shutdown=1,
    )
    asyncio.run(_serve(_Announced(config)))


def print_tasks() -> None:
    """Say what every task waits for; `kill -USR1` asks for it."""
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)
        waiting: Any = task.get_coro()
        while waiting is not None:
            frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "ag_frame", None)
            if frame is not None:
                sys.stderr.write(f"    {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}\n")
            waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "ag_await", None)


async def _serve(server: uvicorn.Server) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, print_tasks)
    await server.serve()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if left:
        os.write(1, f"tasks are left: {sorted(task.get_name() for task in left)}\n".encode())
