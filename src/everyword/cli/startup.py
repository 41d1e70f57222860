"""What a server does before its slow imports: listen, and pause garbage collection.

Only light modules of the standard library are imported here.
"""

from __future__ import annotations

import errno
import gc
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import UsageError

__all__ = ["BACKLOG", "garbage_collection_paused", "listen", "url_of"]

BACKLOG = 2048
"""Connections that wait until the app is ready, or the event loop is free, to accept them."""


def listen(host: str, port: int, *, patience: float = 0.0) -> socket.socket:
    """Listen on an address; clients that connect wait in the backlog until they are accepted.

    Retries for `patience` seconds while another process has the port.

    Raises:
        UsageError: the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    deadline = time.monotonic() + patience
    while True:
        try:
            return socket.create_server((host, port), family=family, backlog=BACKLOG)
        except (OSError, OverflowError) as exc:
            if getattr(exc, "errno", None) == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            raise UsageError(
                f"unable to listen on {host}:{port}; {exc}. "
                "Stop the process that uses it, or choose another port: --port 0 picks a free one"
            ) from exc


def url_of(host: str, listener: socket.socket) -> str:
    """Return the URL for a browser on this machine, or of the host that was given."""
    return f"http://{_name_of(host)}:{listener.getsockname()[1]}"


def _name_of(host: str) -> str:
    if host in ("127.0.0.1", "0.0.0.0", "::", "::1"):
        return "localhost"
    return f"[{host}]" if ":" in host else host


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Do not collect garbage inside this block, or until `gc.enable()`.

    Imports allocate many objects and drop few: collecting while the app was imported took 18 of 240 ms of CPU.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
