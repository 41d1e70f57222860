"""A browser per worker, a server per worker, a conversation per test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from playwright.async_api import Browser, BrowserContext, async_playwright

from tests.browser.bundling import CLIENTS, build
from tests.browser.loops import PATIENCE, Loop
from tests.browser.proxying import Link
from tests.browser.scripted import BOOK
from tests.browser.serving import configured, listening
from tests.browser.tabs import FLAGS, Tab, open_page

ROOT = Path(__file__).parents[2]


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
        asked = {"name": name, "number": number}
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
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.browser.serving", str(self._file), str(self.port)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", "the server did not start"

    def kill(self) -> None:
        """Kill it as `kill -9` does, and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()


@dataclass
class Chat:
    """One conversation of one test: its server, its tabs, its gates."""

    server: Server
    client: str
    name: str
    kind: str = "chat"
    _context: BrowserContext | None = None
    _loop: Loop | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    tabs: list[Tab] = field(default_factory=list)

    def tab(self, *, link: Link | None = None, is_ready: bool = True, **options: Any) -> Tab:
        """Open a tab on this conversation, through a link if one is given; waits until it has rendered."""
        assert self._context is not None
        assert self._loop is not None
        given = {"agent": self.kind, "name": self.name, **options}
        port = link.port if link is not None else self.server.port
        tab = self._loop.run(open_page(self._context, self._loop, port, self.client, given))
        self.tabs.append(tab)
        if is_ready:
            tab.until("c")
            tab.until_connected()
        return tab

    def link(self) -> Link:
        assert self._loop is not None
        return self._stack.enter_context(Link(self._loop, self.server.port))

    def open(self, gate: str) -> None:
        """Let the answer that stands at this gate go on."""
        self.server.open(f"{self.name}/{gate}")

    def until_reached(self, gate: str) -> None:
        self.server.until_reached(f"{self.name}/{gate}")

    def until_left(self, gate: str) -> None:
        """Wait until an answer that stood at this gate was told to stop."""
        self.server.until_left(f"{self.name}/{gate}")

    def until_result(self, number: int = 1) -> dict[str, Any]:
        """Wait until this many turns have ended; return how the last of them did, as `on_chat_response` was told."""
        return self.server.result(self.name, number)

    @property
    def stored(self) -> list[dict[str, Any]]:
        """What get-messages gives."""
        return self.server.messages(self.kind, self.name)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What the agent was asked, call by call."""
        found: list[dict[str, Any]] = self.server.book(self.name)["calls"]
        return found

    @property
    def results(self) -> list[dict[str, Any]]:
        """How turns ended, as `on_chat_response` was told."""
        found: list[dict[str, Any]] = self.server.book(self.name)["results"]
        return found


@pytest.fixture(scope="session")
def browser_loop() -> Iterator[Loop]:
    with Loop("browser") as loop:
        yield loop


@pytest.fixture(scope="session")
def chromium(browser_loop: Loop) -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or "/usr/bin/chromium"
    assert os.access(path, os.X_OK), f"unable to run browser tests; there is no {path}: set CHROMIUM or `make setup`"
    playwright = browser_loop.run(async_playwright().start())
    browser = browser_loop.run(playwright.chromium.launch(executable_path=path, args=FLAGS), patience=60)
    yield browser
    browser_loop.run(browser.close())
    browser_loop.run(playwright.stop())


@pytest.fixture(scope="session")
def worker_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that the tests of this worker share: in this process, on a file."""
    store = tmp_path_factory.mktemp("browser") / "chats.db"
    running = uvicorn.Server(configured(str(store)))
    listener = listening()
    with Loop("server") as loop:
        serving = loop.start(running.serve(sockets=[listener]))
        server = Server(listener.getsockname()[1])
        server.book("nobody")  # answered only once it has started
        yield server
        server.close()
        for gate in list(BOOK.opened.values()):
            loop.call(gate.set)  # what a failed test left waiting would be waited for
        running.should_exit = True
        serving.result(PATIENCE)


@pytest.fixture
def killable_server(tmp_path: Path) -> Iterator[KillableServer]:
    server = KillableServer(tmp_path / "chats.db")
    server.start()
    yield server
    server.close()
    server.kill()


@pytest.fixture(params=list(CLIENTS))
def client(request: pytest.FixtureRequest) -> str:
    """The version of the stock client: the newest, and the one before."""
    name = str(request.param)
    build(name)
    return name


def _conversation(
    request: pytest.FixtureRequest, server: Server, client: str, chromium: Browser, loop: Loop
) -> Iterator[Chat]:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    context = loop.run(chromium.new_context())
    with ExitStack() as stack:
        chat = Chat(server, client, name, _context=context, _loop=loop, _stack=stack)
        request.node.stash[_CHAT] = chat
        yield chat
        complaints = {place: tab.unexpected for place, tab in enumerate(chat.tabs) if tab.unexpected}
        loop.run(context.close())
    assert complaints == {}, "pages wrote to their consoles"


@pytest.fixture
def chat(
    request: pytest.FixtureRequest, worker_server: Server, client: str, chromium: Browser, browser_loop: Loop
) -> Iterator[Chat]:
    """A conversation on the worker's server."""
    yield from _conversation(request, worker_server, client, chromium, browser_loop)


@pytest.fixture
def mortal(
    request: pytest.FixtureRequest,
    killable_server: KillableServer,
    client: str,
    chromium: Browser,
    browser_loop: Loop,
) -> Iterator[Chat]:
    """A conversation on a server that can be killed: `killable_server`."""
    yield from _conversation(request, killable_server, client, chromium, browser_loop)


_CHAT = pytest.StashKey[Chat]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.when == "call" and report.failed and _CHAT in item.stash:
        for place, tab in enumerate(item.stash[_CHAT].tabs):
            report.sections.append((f"tab {place}", tab.describe()))
    return report
