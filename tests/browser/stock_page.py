"""Tabs of a real browser with the stock hook's page, driven from synchronous tests."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

import msgspec
from playwright.async_api import BrowserContext, ConsoleMessage, Error, Page, WebSocket
from playwright.async_api import TimeoutError as TooLate

from tests.browser.loop_thread import PATIENCE, Loop
from tests.browser.tcp_proxy import Link

__all__ = ["FLAGS", "NETWORK", "TEXT", "Tab", "open_page"]

FLAGS: Final = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

NETWORK: Final = r"WebSocket connection to|net::ERR_|Failed to load resource"
"""What the browser itself writes to the console when the network goes away."""

TEXT: Final = "m.parts.filter(p => p.type === 'text').map(p => p.text).join('')"
"""The text of a message `m`, as an expression."""


class Tab:
    """One page. `c` in its expressions is what the hook returned at the last render, `seen` what was seen before."""

    def __init__(self, loop: Loop, page: Page, url: str) -> None:
        self.frames: list[tuple[str, str]] = []
        """What went over its sockets: ("→" sent or "←" received, text); "⇄" is a new socket, "✕" a closed one."""
        self.complaints: list[str] = []
        self.is_plain = False
        """Whether it has `useChat` alone, over HTTP."""
        self._loop, self._page, self._url = loop, page, url
        self._expected: list[str] = []
        self._news = asyncio.Event()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on("websocket", self._connected)

    # -- what a person does ------------------------------------------------------------------------------------

    def ask(self, question: Any, **more: Any) -> None:
        """Send a question, or a script as one; returns when the hook has taken it, not when it is answered."""
        text = question if isinstance(question, str) else json.dumps(question, ensure_ascii=False)
        self.call("sendMessage", {"text": text, **more})

    def call(self, method: str, *args: Any) -> None:
        """Call a method of the hook without waiting for what it promises."""
        self.run("([method, args]) => { window.chat[method](...args); }", [method, list(args)])

    def stop(self) -> None:
        self.call("stop")

    def lose(self, link: Link) -> None:
        """Lose the connection once; returns when the page has noticed, which may be when it has a new one."""
        before = self._count("✕")
        link.drop()
        self._loop.run(self._until_frames(lambda: self._count("✕"), before + 1))

    def reload(self, *, is_ready: bool = True) -> None:
        """Load the page anew; with `is_ready`, wait until the hook has rendered."""
        self._loop.run(self._page.goto(self._url, wait_until="commit"))
        if is_ready:
            self.until("c")

    def close(self) -> None:
        self._loop.run(self._page.close())

    # -- what a person sees ------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        return str(self.run("() => window.chat.status"))

    @property
    def error(self) -> str | None:
        """The text of the hook's error."""
        text = self.run("() => window.chat.error?.message ?? null")
        return text if text is None else str(text)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The hook's messages, as JSON has them."""
        found: list[dict[str, Any]] = json.loads(self.run("() => JSON.stringify(window.chat.messages)"))
        return found

    @property
    def texts(self) -> list[str]:
        """The text of every message, in order."""
        found: list[str] = self.run(f"() => window.chat.messages.map(m => {TEXT})")
        return found

    @property
    def ids(self) -> list[str]:
        found: list[str] = self.run("() => window.chat.messages.map(m => m.id)")
        return found

    @property
    def drawn(self) -> list[dict[str, str]]:
        """What is in the document: role and text of every message."""
        items = "[...document.querySelectorAll('li')]"
        found: list[dict[str, str]] = self.run(
            f"() => {items}.map(li => ({{role: li.dataset.role, text: li.textContent}}))"
        )
        return found

    @property
    def answer(self) -> str:
        """The text of the last message, if it is the assistant's; empty otherwise."""
        return str(
            self.run(
                f"() => {{ const m = window.chat.messages.at(-1); return m?.role === 'assistant' ? {TEXT} : ''; }}"
            )
        )

    def seen(self, what: str) -> Any:
        return self.run("what => window.seen[what]", what)

    def heard(self, callback: str) -> list[Any]:
        """Return what one of the page's callbacks was given, call by call, since the page was loaded."""
        return [given for name, given in self.seen("calls") if name == callback]

    # -- waiting for facts -------------------------------------------------------------------------------------

    def until(self, fact: str, arg: Any = None) -> None:
        """Wait until an expression of `c`, `seen` and `arg` is true; says what is there instead when it never is."""
        look = f"arg => {{ const c = window.chat, seen = window.seen; return Boolean({fact}); }}"
        try:
            self._loop.run(self._wait(look, arg), patience=PATIENCE + 5)
        except TooLate:
            raise AssertionError(f"never came true: {fact} ({arg!r})") from None

    async def _wait(self, look: str, arg: Any) -> None:
        await self._page.wait_for_function(look, arg=arg, polling=10, timeout=PATIENCE * 1000)

    def until_answer(self, text: str, *, status: str | None = None) -> None:
        """Wait until the last message is the assistant's and has exactly this text, and the status is as said."""
        fact = f"(m => m?.role === 'assistant' && {TEXT} === arg[0])(c?.messages.at(-1))"
        self.until(f"{fact} && (!arg[1] || c.status === arg[1])", [text, status])

    def until_ready(self) -> None:
        """Wait until nothing is going on."""
        self.until("c && c.status === 'ready' && !c.isServerStreaming && !c.isRecovering")

    def until_still(self) -> None:
        """Wait until nothing was drawn for a while: the hook holds messages back for 50 ms, but not the status."""
        self.until("performance.now() - seen.drawn > 120")

    def until_status(self, status: str) -> None:
        self.until("c?.status === arg", status)

    def until_connected(self) -> None:
        """Wait until the server has sent its identity frame."""
        self.until("seen.calls.some(([name]) => name === 'identity') && window.agent.readyState === 1")

    def until_ends(self, ending: str) -> None:
        """Wait until the last message is the assistant's and its text ends like this."""
        self.until(f"(m => m?.role === 'assistant' && {TEXT}.endsWith(arg))(c?.messages.at(-1))", ending)

    def until_received(self, kind: str, times: int = 1) -> None:
        """Wait until the server has sent this many frames of a type, on any of the tab's sockets."""
        self._loop.run(self._until_frames(lambda: len(self.received(kind)), times))

    def until_chunk(self, kind: str) -> None:
        """Wait until the server has sent a chunk of this type."""
        frames = "cf_agent_use_chat_response"
        self._loop.run(self._until_frames(lambda: sum(f'"{kind}"' in f["body"] for f in self.received(frames)), 1))

    def until_told(self, outcome: str) -> None:
        """Wait until the server has told this tab of a turn that ended so."""
        kind = "cf_agent_use_chat_response"
        self._loop.run(self._until_frames(lambda: sum(f.get("outcome") == outcome for f in self.received(kind)), 1))

    def until_sent(self, kind: str, times: int = 1) -> None:
        """Wait until the page has sent this many frames of a type, on any of its sockets."""
        self._loop.run(self._until_frames(lambda: len(self.sent(kind)), times))

    def until_complaint(self, pattern: str) -> None:
        """Wait until a line like this is in the console."""
        self._loop.run(self._until_frames(lambda: sum(bool(re.search(pattern, line)) for line in self.complaints), 1))

    async def _until_frames(self, count: Callable[[], int], times: int) -> None:
        while count() < times:
            self._news.clear()
            await self._news.wait()

    def _count(self, way: str) -> int:
        return sum(1 for each, _ in self.frames if each == way)

    # -- the rest ----------------------------------------------------------------------------------------------

    def run(self, script: str, arg: Any = None) -> Any:
        """Evaluate a function in the page."""
        return self._loop.run(self._page.evaluate(script, arg))

    def expect_complaints(self, pattern: str) -> None:
        """Say that the page may write lines like this to the console."""
        self._expected.append(pattern)

    @property
    def unexpected(self) -> list[str]:
        """Console lines that no `expect_complaints` allows."""
        return [line for line in self.complaints if not any(re.search(each, line) for each in self._expected)]

    def received(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the frames that the server has sent on any of the tab's sockets, of one type if it is given."""
        frames = [msgspec.json.decode(text) for way, text in self.frames if way == "←"]
        return [frame for frame in frames if kind is None or frame["type"] == kind]

    def sent(self, kind: str) -> list[dict[str, Any]]:
        frames = [msgspec.json.decode(text) for way, text in self.frames if way == "→"]
        return [frame for frame in frames if frame["type"] == kind]

    def describe(self) -> str:
        """Return what is on the screen and the last frames, for the report of a failed test."""
        try:
            shown = self.run(
                "() => (c => JSON.stringify({status: c?.status, error: c?.error?.message, seen: window.seen,"
                " messages: c?.messages}))(window.chat)"
            )
        except Error as exc:
            shown = str(exc)
        frames = "\n".join(f"  {way} {text[:4000]}" for way, text in self.frames[-60:])
        return f"screen: {shown[:4000]}\nframes:\n{frames}\nconsole: {self.complaints}"

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(message.text)
            self._news.set()

    def _connected(self, socket: WebSocket) -> None:
        self._note("⇄", socket.url)
        socket.on("framesent", lambda payload: self._note("→", payload))
        socket.on("framereceived", lambda payload: self._note("←", payload))
        socket.on("close", lambda _: self._note("✕", ""))

    def _note(self, way: str, payload: str | bytes) -> None:
        self.frames.append((way, payload if isinstance(payload, str) else payload.decode()))
        self._news.set()


async def open_page(context: BrowserContext, loop: Loop, port: int, client: str, options: dict[str, Any]) -> Tab:
    """Open a tab that shows the page with these options; `client` is the version of the client."""
    page = await context.new_page()
    given = quote(json.dumps(options, ensure_ascii=False))
    url = f"http://127.0.0.1:{port}/stock/{client}/index.html?options={given}"
    tab = Tab(loop, page, url)
    await page.goto(url, wait_until="commit")
    return tab
