"""The process that keeps a PostgreSQL while clients are connected to it.

It ends, and removes everything, when its last client has closed its connection. The kernel closes the connections of
killed clients, so nothing is left behind by a test run that was killed.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from types import FrameType

from tests.postgres.cluster import Cluster, ClusterFailed

__all__ = ["main"]


class Keeper:
    """Answers clients, one line of JSON for each line."""

    def __init__(self, cluster: Cluster, first: socket.socket) -> None:
        self._cluster = cluster
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(cluster.control))
        self._listener.listen()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._clients = 0
        self._welcome(first)

    def run(self) -> None:
        while self._clients:
            for key, _ in self._selector.select():
                assert isinstance(key.fileobj, socket.socket)
                if key.fileobj is self._listener:
                    self._welcome(self._listener.accept()[0])
                else:
                    self._answer(key.fileobj)

    def _welcome(self, client: socket.socket) -> None:
        self._clients += 1
        self._selector.register(client, selectors.EVENT_READ)
        _send(client, self._cluster.facts)

    def _answer(self, client: socket.socket) -> None:
        try:
            line = client.recv(65_536)
        except ConnectionError:
            line = b""
        if line:
            return _send(client, self._done(json.loads(line)))
        self._clients -= 1
        self._selector.unregister(client)
        if self._clients:  # the last client waits for the end of this process
            client.close()
        return None

    def _done(self, request: dict[str, str]) -> dict[str, str]:
        try:
            if request["do"] == "start":
                self._cluster.start()
            else:
                self._cluster.stop(request["mode"])
        except ClusterFailed as error:
            return {"error": str(error)}
        return {}


def _send(client: socket.socket, reply: dict[str, str]) -> None:
    with suppress(ConnectionError):  # its end is read next
        client.sendall(json.dumps(reply).encode() + b"\n")


def _end(signum: int, frame: FrameType | None) -> None:
    sys.exit(0)


def main(descriptor: str, programs: str, settings: str) -> None:
    """Keep a PostgreSQL for the client at the other end of a socket, in a process that is not the caller's child."""
    first = socket.socket(fileno=int(descriptor))
    first.set_inheritable(False)
    if os.fork():
        os._exit(0)
    os.setsid()  # Ctrl-C is for the test run, and the end of that ends this process
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    try:
        cluster = Cluster(Path(programs), json.loads(settings))
    except ClusterFailed as error:
        return _send(first, {"error": str(error)})
    except BaseException:
        _send(first, {"error": traceback.format_exc()})
        raise
    try:
        Keeper(cluster, first).run()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        cluster.remove()


if __name__ == "__main__":
    main(*sys.argv[1:])
