"""One run of the simulated server: a directory, its sockets and their tasks, discarded when it crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

from ...ids import AgentId
from ...log.base import LogStore
from ...runtime.api import Responder
from ...runtime.clock import Clock
from ...runtime.directory import Directory, Settings
from ...server.connected_clients import ConnectedClients
from ...server.shared_slices import SharedSlices
from ...server.socket_context import SocketSettings
from ...server.websocket import serve_socket
from .loop import owner_of_tasks
from .network import Link

__all__ = ["ServerRun"]


class ServerRun:
    """A server from start to end. It owns the tasks that it starts, and the tasks that those start."""

    def __init__(
        self,
        number: int,
        store: LogStore,
        responders: Callable[[AgentId], Responder],
        clock: Clock | None,
        settings: Settings,
    ) -> None:
        self.number = number
        self.is_over = False
        """True when clients can no longer connect."""
        self.is_dead = False
        """True after a crash: the effects of tasks that still run are ignored."""
        self.death: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.links: list[Link] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.directory = Directory(store, responders, clock=clock, settings=settings)
        self._clients, self.slices = ConnectedClients(), SharedSlices()
        self._context = self.new_context()
        self._opening = self.start(self.directory.open())

    def new_context(self) -> Context:
        """Return a context for tasks of this run."""
        context = copy_context()
        context.run(owner_of_tasks.set, self.tasks)
        return context

    @property
    def is_open(self) -> bool:
        """True while clients may connect."""
        return not self.is_over and self._opening.done()

    def serve(self, link: Link, agent: str, owner: str) -> None:
        self.links.append(link)
        _ = self.start(self.socket(link, agent, owner))

    def socket(self, link: Link, agent: str, owner: str) -> Coroutine[Any, Any, None]:
        """Serve a socket of this server."""
        settings, websocket = SocketSettings(slices=self.slices), link.websocket(owner)
        return serve_socket(websocket, self.directory, AgentId(agent), self._clients, settings, link.send)

    async def stop(self) -> None:
        """Shut down and close the sockets; return early if the server crashes meanwhile."""
        self.is_over = True
        closing = self.start(self.directory.aclose())
        await asyncio.wait([closing, self.death], return_when=asyncio.FIRST_COMPLETED)

    def die(self) -> None:
        """Mark the server as crashed."""
        self.is_over = self.is_dead = True
        if not self.death.done():
            self.death.set_result(None)

    async def end(self) -> list[str]:
        """Cancel all tasks; return the names of tasks that do not end."""
        self.die()
        for _ in range(200):
            left = [task for task in self.tasks if not task.done()]
            if not left:
                return []
            for task in left:
                task.cancel()
            for _ in range(2 * len(left)):
                await asyncio.sleep(0)
        return [task.get_name() for task in self.tasks if not task.done()]

    def running(self) -> list[str]:
        return [task.get_name() for task in self.tasks if not task.done()]

    def start(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task that belongs to this run."""
        return asyncio.get_running_loop().create_task(coro, context=self._context)
