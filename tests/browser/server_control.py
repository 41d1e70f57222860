"""How a test controls its server: gates, results and stored messages; for some, start and kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import connect

from tests.browser.loop_thread import PATIENCE
from tests.forked_processes import ForkedProcess, fork_process
from tests.free_ports import free_port

__all__ = ["KillableServer", "Server", "TwoNodes"]


class Server:
    """A running server: its port, and what the `/control` routes of `server_app` offer."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, trust_env=False)

    def open(self, gate: str) -> None:
        self._http.post("/control/open", params={"gate": gate}).raise_for_status()

    def until_reached(self, gate: str) -> None:
        self._http.get("/control/reached", params={"gate": gate}).raise_for_status()

    def until_left(self, gate: str) -> None:
        self._http.get("/control/left", params={"gate": gate}).raise_for_status()

    def book(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self._http.get("/control/book", params={"name": name}).raise_for_status().json()
        return found

    def result(self, name: str, number: int) -> dict[str, Any]:
        asked: dict[str, str | int] = {"name": name, "number": number}
        found: dict[str, Any] = self._http.get("/control/result", params=asked).raise_for_status().json()
        return found

    def messages(self, kind: str, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._http.get(f"/agents/{kind}/{name}/get-messages").raise_for_status().json()
        return found

    def ask(self, kind: str, name: str, texts: list[str]) -> None:
        """Send questions in one request, without a page, and wait for the end of the answer."""
        messages = [{"id": f"q-{text}", "role": "user", "parts": [{"type": "text", "text": text}]} for text in texts]
        self._http.post(f"/agents/{kind}/{name}/chat", json={"messages": messages}).raise_for_status()

    def close(self) -> None:
        self._http.close()


class KillableServer(Server):
    """A server in a process of its own, on a store; it can be killed and started again on the same port.

    `lease` is that of a node which shares the store with others. `environment` is added to that of the tests.
    """

    def __init__(self, store: Path | str, lease: float | None = None, **environment: str) -> None:
        super().__init__(free_port())
        self._store, self._lease, self._environment = str(store), str(lease or ""), environment
        self._process: ForkedProcess | None = None

    def start(self) -> None:
        self._process = self._start_process()
        self._process.until_ready()

    def _start_process(self) -> ForkedProcess:
        given = self._store, str(self.port), self._lease
        return fork_process("tests.browser.server_app", *given, **self._environment)

    def kill(self) -> None:
        """Kill it as `kill -9` does, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def stop(self) -> None:
        """Ask it to stop, as a deployment does, and wait until it has."""
        assert self._process is not None
        self._process.stop()
        self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()


class TwoNodes(Server):
    """Two nodes on one store. Pages connect to the edge, and what they talk to is loaded at the owner."""

    def __init__(self, store: str, lease: float, **environment: str) -> None:
        self.owner, self.edge = [KillableServer(store, lease, **environment) for _ in range(2)]
        for node in (self.owner, self.edge):
            node.start()
        super().__init__(self.edge.port)
        self._at = self.owner
        """The node that runs the agents: its gates and its book are asked."""

    def take(self, kind: str, name: str) -> None:
        """Load an agent at the owner."""
        with connect(f"ws://127.0.0.1:{self.owner.port}/agents/{kind}/{name}", proxy=None) as socket:
            socket.recv()

    def kill_owner(self) -> None:
        """Kill the owner as `kill -9` does: the edge is the next owner."""
        self.owner.kill()
        self._at = self.edge

    def open(self, gate: str) -> None:
        self._at.open(gate)

    def until_reached(self, gate: str) -> None:
        self._at.until_reached(gate)

    def until_left(self, gate: str) -> None:
        self._at.until_left(gate)

    def book(self, name: str) -> dict[str, Any]:
        return self._at.book(name)

    def result(self, name: str, number: int) -> dict[str, Any]:
        return self._at.result(name, number)

    def close(self) -> None:
        super().close()
        for node in (self.owner, self.edge):
            node.close()
            node.kill()
