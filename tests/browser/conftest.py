"""A browser per worker, a server per worker, a conversation per test."""

from __future__ import annotations

import inspect
import itertools
import os
import re
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvicorn
from playwright.async_api import Browser, BrowserContext, async_playwright

from tests.browser.conversation import Conversation
from tests.browser.loop_thread import PATIENCE, Loop
from tests.browser.page_bundles import CLIENTS, build
from tests.browser.playground_tab import LENT, demo_process
from tests.browser.scripted_agents import BOOK
from tests.browser.server_app import configured, listening
from tests.browser.server_control import KillableServer, Server, TwoNodes
from tests.browser.stock_page import FLAGS
from tests.leaked_tasks import fail_on_leaked_tasks

_CHAT = pytest.StashKey[Conversation]()
_NUMBERS = itertools.count(1)


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
def window(browser_loop: Loop, chromium: Browser) -> Iterator[BrowserContext]:
    """A window that stays open: opening one takes longer than most tests."""
    context = browser_loop.run(chromium.new_context())
    browser_loop.run(context.new_page())
    yield context
    browser_loop.run(context.close())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run `async def` tests in the loop of the worker's browser, so that they can use it instead of starting one."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    loop: Loop = pyfuncitem._request.getfixturevalue("browser_loop")
    LENT.append(pyfuncitem._request.getfixturevalue("chromium"))
    try:
        names = pyfuncitem._fixtureinfo.argnames
        asked = test(**{name: pyfuncitem.funcargs[name] for name in names})
        loop.run(fail_on_leaked_tasks(asked, except_for="playwright"), patience=None)
    finally:
        LENT.clear()
    return True


@pytest.fixture(scope="session")
def worker_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that the tests of this worker share: in this process, on a file."""
    store = tmp_path_factory.mktemp("browser") / "chats.db"
    running = uvicorn.Server(configured(str(store)))
    listener = listening()
    with Loop("server") as loop:
        serving = loop.start(running.serve(sockets=[listener]))
        server = Server(listener.getsockname()[1])
        server.book("nobody")  # responds once the server has started
        yield server
        server.close()
        for gate in list(BOOK.opened.values()):
            loop.call(gate.set)  # the shutdown would wait for answers that a failed test left at a gate
        running.should_exit = True
        serving.result(PATIENCE)


@pytest.fixture(scope="session")
def worker_demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the `everyword dev` that the tests of this worker share: in a process, on a file."""
    with demo_process(tmp_path_factory.mktemp("demo")) as url:
        yield url


@pytest.fixture
def demo_url(worker_demo: str) -> str:
    """The URL of a conversation that only this test has, in the worker's demo. A short name fits into any header."""
    return f"{worker_demo}/?name=demo{next(_NUMBERS)}"


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
    request: pytest.FixtureRequest, server: Server, client: str, window: BrowserContext, loop: Loop
) -> Iterator[Conversation]:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    with ExitStack() as stack:
        chat = Conversation(server, client, name, window, loop, stack)
        request.node.stash[_CHAT] = chat
        yield chat
        complaints = {place: tab.unexpected for place, tab in enumerate(chat.tabs) if tab.unexpected}
        for tab in chat.tabs:
            tab.close()
    assert complaints == {}, "pages wrote to their consoles"


@pytest.fixture
def chat(
    request: pytest.FixtureRequest, worker_server: Server, client: str, window: BrowserContext, browser_loop: Loop
) -> Iterator[Conversation]:
    """A conversation on the worker's server."""
    yield from _conversation(request, worker_server, client, window, browser_loop)


@pytest.fixture
def mortal(
    request: pytest.FixtureRequest,
    killable_server: KillableServer,
    client: str,
    window: BrowserContext,
    browser_loop: Loop,
) -> Iterator[Conversation]:
    """A conversation on a server that can be killed: `killable_server`."""
    yield from _conversation(request, killable_server, client, window, browser_loop)


@pytest.fixture
def two_nodes(postgres_url: str) -> Iterator[TwoNodes]:
    nodes = TwoNodes(postgres_url, lease=1.5)
    yield nodes
    nodes.close()


@pytest.fixture
def relayed(
    request: pytest.FixtureRequest, two_nodes: TwoNodes, client: str, window: BrowserContext, browser_loop: Loop
) -> Iterator[Conversation]:
    """A conversation on a node that relays to the owner of its agent."""
    yield from _conversation(request, two_nodes, client, window, browser_loop)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what every tab showed and what went over its sockets to the report of a failed test."""
    report = yield
    if report.when == "call" and report.failed and _CHAT in item.stash:
        report.sections.extend(("note", note) for note in item.stash[_CHAT].notes)
        for place, tab in enumerate(item.stash[_CHAT].tabs):
            report.sections.append((f"tab {place}", tab.describe()))
    return report
