"""The tutorial, and the example with a page, done as their readers do it: what is printed, run and looked at.

The blocks and commands are used as they are. Only the server's port is another one, because 8787 may be taken; the
browser is told where 8787 is, so that the pages need not know.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

from tests.architecture.test_docs_examples import Block, blocks
from tests.browser.page_bundles import MODULES
from tests.browser.stock_page import FLAGS, NETWORK
from tests.cli.kit import ROOT, Running
from tests.server.kit import PATIENCE

pytestmark = [pytest.mark.browser, pytest.mark.crash]

expect.set_options(timeout=PATIENCE * 1000)

EXAMPLE = ROOT / "examples" / "fastapi_chat"
TUTORIAL = list(blocks((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")))
README = list(blocks((EXAMPLE / "README.md").read_text(encoding="utf-8")))

# What finds the only answer of a conversation on each of the pages.
DEV, REACT, CHAT = "#messages li.assistant .text", "p:has(b) ~ p:has(b)", "li[data-role=assistant]"

# Records every state of the answer that was visible.
WATCH = """
window.answer = () => [...document.querySelectorAll(%r)].map(e => e.textContent).join("").replace(/^assistant: /, "");
window.states = [];
new MutationObserver(() => {
  const text = window.answer();
  if (text !== window.states.at(-1)) window.states.push(text);
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


def printed(page: list[Block], language: str, containing: str = "") -> str:
    """Return the text of the only such block."""
    (found,) = [block.text for block in page if block.language == language and containing in block.text]
    return found


def command(page: list[Block], beginning: str) -> str:
    """Return the only command that begins so, without its prompt and comment."""
    lines = [line for block in page if block.language == "console" for line in block.text.splitlines()]
    (found,) = [line for line in lines if line.startswith(f"$ {beginning}")]
    return found.removeprefix("$ ").partition("  #")[0].strip()


def story(file: Path) -> str:
    """Return the story that the agent in this file tells: word by word, each followed by a space."""
    text = file.read_text(encoding="utf-8").partition("STORY = (\n")[2].partition("\n)\n")[0]
    return "".join(f"{word} " for line in text.splitlines() for word in json.loads(line).split())


def environment() -> dict[str, str]:
    """Return what an activated virtual environment makes of ours."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@asynccontextmanager
async def started(command: str, folder: Path) -> AsyncIterator[Running]:
    """Run a command; whatever happens, it is gone afterwards, with everything that it started."""
    process = await asyncio.create_subprocess_exec(
        *shlex.split(command),
        stdin=asyncio.subprocess.PIPE,  # esbuild ends with its input
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env=environment(),
        start_new_session=True,
    )
    try:
        yield Running(process)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()


async def kill(server: Running) -> None:
    """Kill the process whose number it has printed, as `kill -9` does."""
    number = int(await server.until(r"(?<=kill -9 )\d+|(?<=server process \[)\d+"))
    assert number == server.process.pid
    os.kill(number, signal.SIGKILL)
    await server.ended()


@dataclass
class Reader:
    """A user of a page."""

    page: Page
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._hear)
        self.page.set_default_timeout(PATIENCE * 1000)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not re.search(NETWORK, message.text):
            self.problems.append(message.text)

    async def ask(self, text: str) -> None:
        box = self.page.get_by_role("textbox")
        await box.fill(text)
        await box.press("Enter")

    async def read(self, words: str) -> None:
        """Wait until the answer has these words in it."""
        await self.page.wait_for_function("words => window.answer().includes(words)", arg=words)

    async def expect_whole(self, text: str) -> None:
        """Wait until the answer is this text; whatever it looked like before was a beginning of it."""
        await self.page.wait_for_function("text => window.answer() === text", arg=text)
        assert [state for state in await self.page.evaluate("window.states") if not text.startswith(state)] == []
        assert self.problems == []

    async def text(self) -> str:
        found: str = await self.page.evaluate("window.answer()")
        return found


@asynccontextmanager
async def browsing(port: int) -> AsyncIterator[Browser]:
    """Start a browser for which the server at this port is at localhost:8787, as everything printed says."""
    async with async_playwright() as playwright:
        path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        flags = [*FLAGS, f"--host-resolver-rules=MAP localhost:8787 127.0.0.1:{port}"]
        browser = await playwright.chromium.launch(executable_path=path, args=flags)
        try:
            yield browser
        finally:
            await browser.close()


async def visit(browser: Browser, url: str, answer: str, **options: Any) -> Reader:
    context = await browser.new_context(**options)
    await context.add_init_script(WATCH % answer)
    reader = Reader(await context.new_page())
    await reader.page.goto(url)
    return reader


# -- the tutorial ---------------------------------------------------------------------------------------------------


@pytest.fixture
def harbour(tmp_path: Path) -> Path:
    """The folder after all steps up to "A React page", except installing."""
    (tmp_path / "app.py").write_text(printed(TUTORIAL, "python", "app = Everyword([Chat])"), encoding="utf-8")
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "index.html").write_text(printed(TUTORIAL, "html"), encoding="utf-8")
    (tmp_path / "main.jsx").write_text(printed(TUTORIAL, "jsx"), encoding="utf-8")
    (tmp_path / "node_modules").symlink_to(MODULES)
    return tmp_path


def improve(folder: Path) -> None:
    """Put the agent of the last part into the place of the first one."""
    agent = printed(TUTORIAL, "python", "the changed agent")
    before, _, after = (folder / "app.py").read_text(encoding="utf-8").partition("class Chat")
    _, found, rest = after.partition("\n\n\napp = ")
    assert found
    (folder / "app.py").write_text(before + agent + found + rest, encoding="utf-8")


def developing(folder: Path, port: int = 0) -> Any:
    return started(f"{command(TUTORIAL, 'everyword dev')} --port {port}", folder)


async def port_of(server: Running) -> int:
    return int((await server.until(r"http://\S+:\d+")).rpartition(":")[2])


async def bundling(packer: Running) -> str:
    """Return where esbuild says that the page is."""
    return await packer.until(r"http://127\.0\.0\.1:\d+/")


def test_the_packages_that_the_tutorial_installs_are_those_that_we_test_with() -> None:
    tested = json.loads((MODULES.parent / "package.json").read_text(encoding="utf-8"))["dependencies"]
    named = command(TUTORIAL, "npm install").split()[2:]
    assert len(named) > 5
    for name, _, major in (each.rpartition("@") if each.rfind("@") > 0 else (each, "", "") for each in named):
        assert tested[name].startswith(f"{major}." if major else "")


@pytest.mark.obligation("003-9", "003-11")
async def test_the_first_agent_runs_as_printed_through_a_reload_and_in_two_tabs(harbour: Path) -> None:
    async with developing(harbour) as server, browsing(await port_of(server)) as browser:
        one = await visit(browser, "http://localhost:8787", DEV)
        await one.ask("Tell me a story")
        await one.read("a book")
        await one.page.reload()
        await one.read("a book")
        two = await visit(browser, "http://localhost:8787", DEV)
        await two.read("a book")
        assert await two.text() != story(harbour / "app.py")
        for reader in (one, two):
            await reader.expect_whole(story(harbour / "app.py"))
        assert (harbour / "everyword.db").is_file()


@pytest.mark.obligation("003-10")
async def test_the_react_page_runs_as_printed_through_a_reload_and_a_kill(harbour: Path) -> None:
    async with started(command(TUTORIAL, "npx esbuild"), harbour) as packer:
        url = await bundling(packer)
        async with developing(harbour) as server:
            port = await port_of(server)
            async with browsing(port) as browser:
                reader = await visit(browser, url, REACT)
                await reader.ask("Tell me a story")
                await reader.read("a book")
                await reader.page.reload()
                await reader.read("a book")
                await kill(server)
                await expect(reader.page.get_by_text("WebSocket closed")).to_be_visible()
                seen = await reader.text()
                async with developing(harbour, port):
                    await reader.read("You said:")
                    await expect(reader.page.get_by_text("ready")).to_be_visible()
                    said, _, again = (await reader.text()).partition("You said: ")
                    assert story(harbour / "app.py").startswith(said) and said.startswith(seen)
                    await reader.expect_whole(f"{said}You said: {said}")
                    assert again == said


async def test_the_last_agent_finishes_the_story_on_both_pages_after_a_kill(harbour: Path) -> None:
    improve(harbour)
    async with started(command(TUTORIAL, "npx esbuild"), harbour) as packer, developing(harbour) as server:
        port = await port_of(server)
        async with browsing(port) as browser:
            readers = [
                await visit(browser, await bundling(packer), REACT),
                await visit(browser, "http://localhost:8787/?name=bob", DEV),
            ]
            for reader in readers:
                await reader.ask("Tell me a story")
            for reader in readers:
                await reader.read("a book")
            await kill(server)
            async with developing(harbour, port):
                for reader in readers:
                    await reader.expect_whole(story(harbour / "app.py"))
                await readers[0].page.reload()
                await readers[0].expect_whole(story(harbour / "app.py"))


# -- the example ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with its page built."""
    folder = tmp_path_factory.mktemp("example") / "fastapi_chat"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "main.js", "everyword.db*"))
    (folder / "node_modules").symlink_to(MODULES)
    installs, builds = command(README, "npm install").split(" && ")
    assert installs == "npm install"
    ran = subprocess.run(
        shlex.split(builds), cwd=folder, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return folder


@pytest.fixture
def example(built: Path) -> Iterator[Path]:
    """The built example, with an empty log."""
    yield built
    for file in built.glob("everyword.db*"):
        file.unlink()


def serving(folder: Path, app: str, port: int = 0) -> Any:
    ours = command(README, "uvicorn").replace("server:app", app).replace("8787", str(port))
    assert ours != command(README, "uvicorn")
    return started(ours, folder)


def without_lifespan(folder: Path) -> str:
    """Make the variant of the application that the README mentions; return what uvicorn calls it."""
    text = (folder / "server.py").read_text(encoding="utf-8")
    assert text.count("(lifespan=agents.lifespan)") == 1
    (folder / "plain.py").write_text(text.replace("(lifespan=agents.lifespan)", "()"), encoding="utf-8")
    return "plain:app"


@pytest.mark.parametrize("is_composed", [True, False], ids=["lifespan", "no-lifespan"])
async def test_the_fastapi_example_tells_its_story_through_a_reload_and_a_kill(
    example: Path, is_composed: bool
) -> None:
    app = "server:app" if is_composed else without_lifespan(example)
    async with serving(example, app) as server:
        port = await port_of(server)
        url = f"http://localhost:{port}"
        async with browsing(port) as browser:
            one, two = await visit(browser, url, CHAT), await visit(browser, url, CHAT)
            await one.ask("Tell me a story")
            await two.read("a book")
            await one.page.reload()
            await one.read("a book")
            await kill(server)
            await expect(one.page.get_by_role("status")).to_contain_text("The server is away")
            async with serving(example, app, port) as again:
                for reader in (one, two):
                    await reader.expect_whole(story(example / "server.py"))
                    await expect(reader.page.get_by_role("status")).to_be_hidden()
                    await expect(reader.page.get_by_role("alert")).to_be_hidden()
                    await expect(reader.page.get_by_role("button", name="Send")).to_be_visible()
                    await expect(reader.page.locator("li")).to_have_count(2)
                await again.until("ann: completed")
                async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
                    assert (await http.get("/openapi.json")).json()["info"]["title"] == "FastAPI"
                    assert (await http.get("/health")).json() == {"kinds": ["chat"]}


async def test_what_the_example_said_before_stop_is_there_after_a_reload_and_nothing_more(example: Path) -> None:
    async with serving(example, "server:app") as server:
        port = await port_of(server)
        async with browsing(port) as browser:
            reader = await visit(browser, f"http://localhost:{port}", CHAT)
            await reader.ask("Tell me a story")
            await reader.read("a book")
            await reader.page.get_by_role("button", name="Stop").click()
            await server.until("ann: aborted")
            await expect(reader.page.get_by_role("button", name="Send")).to_be_visible()
            said = await reader.text()
            assert story(example / "server.py").startswith(said) and said != story(example / "server.py")
            await reader.page.reload()
            await reader.expect_whole(said)
            await reader.page.get_by_role("button", name="Clear").click()
            await expect(reader.page.locator("li")).to_have_count(0)


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 27)")])
async def test_the_page_of_the_example_fits_a_phone_and_follows_the_colour_scheme(
    example: Path, scheme: Any, paper: str
) -> None:
    async with serving(example, "server:app") as server:
        port = await port_of(server)
        async with browsing(port) as browser:
            size: Any = {"width": 390, "height": 500}
            reader = await visit(
                browser, f"http://localhost:{port}", CHAT, viewport=size, color_scheme=scheme, is_mobile=True
            )
            await expect(reader.page.locator("body")).to_have_css("background-color", paper)
            await reader.ask("   ")
            await expect(reader.page.locator("li")).to_have_count(0)
            for number, question in enumerate(("x" * 300, "y" * 300), 1):
                await reader.ask(question)
                await reader.read(question)
                await expect(reader.page.locator(CHAT)).to_have_count(number)
            widths = "[...document.querySelectorAll('html, section, li')].map(e => e.scrollWidth - e.clientWidth)"
            assert await reader.page.evaluate(widths) == [0] * 6
            await expect(reader.page.locator(CHAT).last).to_be_in_viewport(ratio=0.9)
            for name in ("Clear", "Send"):
                box = await reader.page.get_by_role("button", name=name).bounding_box()
                assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390
            assert reader.problems == []
