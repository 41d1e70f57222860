"""A streamed HTTP response that ends when its client is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, aclosing, nullcontext, suppress
from typing import Any

from starlette.types import Receive, Scope, Send

from ..errors import AgentStopped

__all__ = ["Admit", "StreamedResponse"]

Admit = Callable[[Callable[[], None]], AbstractContextManager[Any]]
"""Takes the function that cuts off the response; entered while it streams."""


class StreamedResponse:
    """Sends pieces as they come, at the client's own pace, and stops when the client is gone.

    `held` is entered while it streams, and what `admit` gives, which may cut it off. When it is cut off, or the pieces
    end with AgentStopped, the response stays incomplete, so that the client knows that it must come back.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        headers: Mapping[str, str],
        held: AbstractContextManager[Any] | None = None,
        admit: Admit | None = None,
        *,
        status: int = 200,
    ) -> None:
        self._pieces, self._status = pieces, status
        self._headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        self._held = held if held is not None else nullcontext()
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Be an ASGI application."""
        with ExitStack() as held:
            held.enter_context(self._held)
            pump = asyncio.create_task(self._pump(send), name="stream to a client")
            gone = asyncio.create_task(_disconnected(receive), name="end of a client")
            if self._admit is not None:
                held.enter_context(self._admit(lambda: _cancel(gone)))
            try:
                await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pump.cancel()
                gone.cancel()
                await asyncio.wait({pump, gone})
        if not pump.cancelled():
            pump.result()

    async def _pump(self, send: Send) -> None:
        async with aclosing(self._pieces) as pieces:  # closing it lets go of the agent
            await send({"type": "http.response.start", "status": self._status, "headers": self._headers})
            with suppress(AgentStopped):
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
