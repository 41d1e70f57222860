"""Servers as a test sees them: a port, a door for tests, and for some a process that can be killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.browser.loops import PATIENCE
from tests.browser.serving import listening
from tests.nursery import Child, born

__all__ = ["KillableServer", "Server"]


class Server:
    """A running server, as a test sees it: a port, and the door for tests."""

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
        """Ask questions in one go, without a page, and wait for the end of the answer."""
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
        self._process: Child | None = None

    def start(self) -> None:
        self._process = self._born()
        self._process.until_ready()

    def _born(self) -> Child:
        return born("tests.browser.serving", str(self._file), str(self.port))

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
