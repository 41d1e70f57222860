"""What other nodes ask of this one: relayed requests and sockets, calls, hints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from ..errors import BadLinkFrame, UsageError
from ..ids import Incarnation
from .calls import CallServer, OnCall
from .hints import read_hint
from .purposes import CALL, RELAY
from .relayed_requests import RelayedRequests
from .remote_failures import write_failure
from .settings import LinkSettings
from .streams import LinkStream

__all__ = ["OnHint", "PeerRequests"]

log = logging.getLogger("everyword.cluster")

OnHint: TypeAlias = Callable[[str, bytes, Incarnation], None]
"""Takes a hint of another node: topic, payload, and the incarnation of that node. Must return soon."""


class PeerRequests:
    """Serves the streams and hints of other nodes. One object serves all links of a node."""

    def __init__(
        self,
        relayed: RelayedRequests | None = None,
        *,
        on_call: OnCall | None = None,
        on_hint: OnHint | None = None,
        settings: LinkSettings | None = None,
    ) -> None:
        limit = (settings or LinkSettings()).message_bytes
        self._calls = CallServer(on_call, limit) if on_call is not None else None
        self._relayed, self._on_hint = relayed, on_hint
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def opened(self, stream: LinkStream, header: bytes, peer: Incarnation) -> None:
        """Serve a stream in a task of its own."""
        purpose, rest = header[:1], header[1:]
        if purpose == CALL and self._calls is not None:
            self._start(self._calls.serve(stream, rest), f"call of node {peer}")
        elif purpose == RELAY and self._relayed is not None:
            self._start(self._relayed.serve(stream, rest, peer), f"relayed by node {peer}")
        else:
            stream.reset(write_failure(UsageError("unable to serve this stream; this release does not know it")))

    def hinted(self, payload: bytes, peer: Incarnation) -> None:
        """Pass a hint on. A hint that fails is logged."""
        if self._on_hint is None:
            return
        try:
            self._on_hint(*read_hint(payload), peer)
        except BadLinkFrame as exc:
            log.warning("node %d: %s", peer, exc)
        except Exception:
            log.exception("unable to take a hint of node %d", peer)

    async def aclose(self) -> None:
        """Cancel what is still served."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
