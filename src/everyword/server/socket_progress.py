"""How far a relayed socket is, told to the node that its client is connected to: another owner can go on from there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.types import Scope, Send
from starlette.websockets import WebSocketDisconnect

from ..cluster.relay_header import RELAYED
from ..cluster.relay_records import Progress
from ..ids import Seq

__all__ = ["SocketProgress", "SocketResume", "resumed_from"]

MOST_RESUME: Final = 128 * 1024
"""Bytes of a `SocketResume`. It has to fit into one record and into the header of the next relay, as base64."""


class SocketResume(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an owner leaves for the next one that serves the socket, besides the cursor."""

    view: msgspec.Raw
    """The `ViewMemory` of the connection."""
    serial: str
    """The name of the socket: events in the log have it as their origin."""
    since: float
    state: Any = None
    """`Connection.state`."""


_decode = msgspec.json.Decoder(SocketResume).decode


def resumed_from(scope: Scope) -> tuple[SocketResume, Seq] | None:
    """Return what another owner has left for this socket, and where its client is; None for a new socket."""
    relayed = (scope.get("extensions") or {}).get(RELAYED) or {}
    resume = relayed.get("resume")
    return (_decode(resume), Seq(relayed["cursor"])) if resume else None


class SocketProgress:
    """Tells the edge after each delivery how far the client is. `resume` says what the next owner needs."""

    def __init__(
        self,
        scope: Scope,
        send: Send,
        *,
        resume: Callable[[], SocketResume | None],
        is_busy: Callable[[], bool],
    ) -> None:
        self.write_at: Callable[[int, list[bytes]], bool] = scope["extensions"][RELAYED]["write_at"]
        """Writes frames without waiting, with the cursor that they lead to; False if they do not fit."""
        self.taken = 0
        """How many frames of the client were decided."""
        self._send, self._resume, self._is_busy = send, resume, is_busy
        self._told: tuple[int, int, bool] | None = None
        self._left = b""

    @classmethod
    def for_socket(cls, scope: Scope, send: Send, **callbacks: Any) -> SocketProgress | None:
        """Return the progress of a relayed socket; None for one that is connected to this node."""
        relayed = (scope.get("extensions") or {}).get(RELAYED) or {}
        return cls(scope, send, **callbacks) if "write_at" in relayed else None

    @property
    def can_move(self) -> bool:
        """Whether the edge knows enough to take the client to another owner."""
        return bool(self._left) and not self._is_busy()

    async def begin(self) -> None:
        """Say that frames follow which lead to the next place."""
        self._told = None
        await self._tell(Progress(is_open=True))

    async def report(self, cursor: Seq) -> None:
        """Say how far the client is, if that has changed."""
        is_busy = self._is_busy()
        now = cursor, self.taken, is_busy
        if now == self._told:
            return
        resume = self._resume()
        left = msgspec.json.encode(resume) if resume is not None else b""
        if len(left) > MOST_RESUME:
            left = b""
        changed = left if left != self._left else None
        self._told, self._left = now, left
        await self._tell(Progress(cursor, self.taken, is_busy=is_busy or not left, resume=changed))

    def end(self) -> None:
        """Drop the callbacks: they refer to the socket, and both would wait for the garbage collector."""
        del self._resume, self._is_busy

    async def _tell(self, progress: Progress) -> None:
        try:
            await self._send({"type": "everyword.progress", "progress": progress})
        except OSError:
            raise WebSocketDisconnect(code=1006) from None
