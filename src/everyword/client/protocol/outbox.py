"""The frames that a client has to send, on this connection or the next."""

from __future__ import annotations

from typing import Any

import msgspec

from .unconfirmed_frames import UnconfirmedFrames

__all__ = ["ClientOutbox"]


class ClientOutbox:
    """Frames to send, in order.

    Questions and commands are sent again on every new connection until they are confirmed. Kept frames are sent once,
    on this connection or the next. Posted frames belong to this connection and are lost with it.
    """

    def __init__(self, prefix: str) -> None:
        self.is_connected = True
        self._unconfirmed = UnconfirmedFrames(prefix)
        self._waiting: list[tuple[str | bytes, bool]] = []
        """Frames, and whether they are kept when the connection is lost."""

    def connected(self) -> None:
        """Send everything that is not confirmed, before what was kept."""
        self.disconnected()
        self.is_connected = True
        self._waiting = [*((frame, False) for frame in self._unconfirmed.frames()), *self._waiting]

    def disconnected(self) -> None:
        """Drop all frames except those that are kept."""
        self.is_connected = False
        self._waiting = [(frame, is_kept) for frame, is_kept in self._waiting if is_kept]

    def frames_to_send(self) -> list[str | bytes]:
        """Return, once, the frames that are to be sent now."""
        if not self.is_connected:
            return []
        waiting, self._waiting = self._waiting, []
        return [frame for frame, _ in waiting]

    def post(self, **frame: Any) -> None:
        """Send a frame on this connection; without one, it is dropped."""
        self._add(_encoded(frame))

    def keep(self, frame: str | bytes) -> None:
        """Send a frame once, on this connection or the next."""
        self._waiting.append((frame, True))

    def question(self, request_id: str, **frame: Any) -> None:
        """Send a frame until `confirm(request_id)`."""
        self._add(*self._unconfirmed.question(request_id, _encoded(frame)))

    def command(self, **frame: Any) -> str:
        """Send a frame until the server has processed it; return the mark that `is_confirmed` takes."""
        mark, frames = self._unconfirmed.command(_encoded(frame))
        self._add(*frames)
        return mark

    def confirm(self, key: str) -> bool:
        """Stop sending what has this request id or mark; False if there was nothing."""
        return self._unconfirmed.confirm(key)

    def is_confirmed(self, mark: str) -> bool:
        return self._unconfirmed.is_confirmed(mark)

    def _add(self, *frames: str) -> None:
        if self.is_connected:
            self._waiting += [(frame, False) for frame in frames]


def _encoded(frame: dict[str, Any]) -> str:
    return msgspec.json.encode(frame).decode()
