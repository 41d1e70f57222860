"""How a test controls its server: gates, results and stored messages; for some, start and kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.browser.loop_thread import PATIENCE
from tests.browser.server_app import listening
from tests.forked_processes import ForkedProcess, fork_process

__all__ = ["KillableServer", "Server"]


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
    """A server in a process of its own, on a file; it can be killed and started again on the same port."""

    def __init__(self, file: Path) -> None:
        listener = listening()
        super().__init__(listener.getsockname()[1])
        listener.close()
        self._file = file
        self._process: ForkedProcess | None = None

    def start(self) -> None:
        self._process = self._start_process()
        self._process.until_ready()

    def _start_process(self) -> ForkedProcess:
        return fork_process("tests.browser.server_app", str(self._file), str(self.port))

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
