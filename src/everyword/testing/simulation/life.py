"""One life of the server: a directory, its sockets and everything that runs for them, thrown away when it crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

from ...ids import AgentId
from ...log.base import LogStore
from ...runtime.api import Responder
from ...runtime.clock import Clock
from ...runtime.directory import Directory, Settings
from ...server.client_commands import SocketSettings
from ...server.presence import Presence
from ...server.shared_slices import SharedSlices
from ...server.websocket import serve_socket
from .loop import owner_of_tasks
from .network import Link

__all__ = ["Life"]


class Life:
    """A server from start to end. Tasks that it starts, and those that they start, are its own."""

    def __init__(
        self, number: int, store: LogStore, responders: Callable[[AgentId], Responder], clock: Clock, retention: int
    ) -> None:
        self.number = number
        self.is_over = False
        """Whether nobody can connect any more."""
        self.is_dead = False
        """Whether nothing that still runs counts any more."""
        self.death: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.links: list[Link] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.directory = Directory(store, responders, clock=clock, settings=Settings(grace=0, retention=retention))
        self._presence, self.sharing = Presence(), SharedSlices()
        self._context = copy_context()
        self._context.run(owner_of_tasks.set, self.tasks)
        self._opening = self.start(self.directory.open())

    @property
    def is_open(self) -> bool:
        """Whether clients may connect."""
        return not self.is_over and self._opening.done()

    def serve(self, link: Link, agent: str, owner: str) -> None:
        self.links.append(link)
        websocket = link.websocket(owner)
        settings = SocketSettings(sharing=self.sharing)
        _ = self.start(serve_socket(websocket, self.directory, AgentId(agent), self._presence, settings, link.send))

    async def stop(self) -> None:
        """Shut down in good order, unless it dies of it; the sockets are closed by it."""
        self.is_over = True
        closing = self.start(self.directory.aclose())
        await asyncio.wait([closing, self.death], return_when=asyncio.FIRST_COMPLETED)

    def die(self) -> None:
        """From now on nothing that runs here counts."""
        self.is_over = self.is_dead = True
        if not self.death.done():
            self.death.set_result(None)

    async def end(self) -> list[str]:
        """Throw everything away that still runs; return the names of what would not go."""
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
        """Run something as a part of this life."""
        return asyncio.get_running_loop().create_task(coro, context=self._context)
