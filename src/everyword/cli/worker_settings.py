"""The environment of each worker: its name among the nodes, and where its siblings and other machines reach it."""

from __future__ import annotations

import secrets
import shutil
import socket
import tempfile
from collections.abc import Mapping
from typing import Final

from ..errors import UsageError

__all__ = ["WorkerSettings"]

NAME, GROUP, LISTEN, ADDRESS = (f"EVERYWORD_NODE_{each}" for each in ("NAME", "GROUP", "LISTEN", "ADDRESS"))

LONGEST_FOLDER: Final = 80
"""Bytes of the folder of link sockets: the path of a Unix socket has at most 103 bytes on some systems."""


class WorkerSettings:
    """Gives every worker its `EVERYWORD_NODE_…` variables.

    Without an address in the environment, links use Unix sockets in a folder that only this user may open. With
    `EVERYWORD_NODE_LISTEN=host:port`, workers use that port and the ones after it: one for each worker, and one for the
    worker that replaces another.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        """Read the environment of the supervisor.

        Raises:
            UsageError: an address cannot be shared out to several workers.
        """
        self._given = given
        self._group = secrets.token_hex(8)
        self._name = given.get(NAME) or socket.gethostname()
        self._listen, self._address = given.get(LISTEN), given.get(ADDRESS)
        if self._address and not self._listen:
            raise UsageError(
                f"unable to start workers; {ADDRESS} says where other machines reach them, but not where they listen. "
                f"Set {LISTEN}, for instance to 0.0.0.0:7400"
            )
        self._folder = "" if self._listen else tempfile.mkdtemp(prefix="everyword-")

    def name(self, number: int) -> str:
        """Return the name of a worker; the first has number 1."""
        return f"{self._name}-{number}"

    def environment(self, number: int, place: int) -> dict[str, str]:
        """Return the environment of a worker; no two that live have the same `place`, which counts from 0."""
        added = {NAME: self.name(number), GROUP: self._group}
        if self._listen:
            added[LISTEN] = _moved(self._listen, place)
            if self._address:
                added[ADDRESS] = _moved(self._address, place)
        elif len(self._folder.encode()) <= LONGEST_FOLDER:
            added[LISTEN] = f"unix:{self._folder}/"
        return {**self._given, **added}

    def close(self) -> None:
        """Remove the sockets of the links."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _moved(address: str, place: int) -> str:
    """Return the address with a port or a path of this place's own. A worker reports an address that is none."""
    if address.startswith(("unix:", "/")):
        return address if address.endswith("/") else f"{address}.{place}"
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + place}" if port.isdecimal() and int(port) else address
