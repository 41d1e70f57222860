"""A chat in the terminal: answers as they grow, tools as they run, questions before what needs a word."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from contextlib import suppress
from typing import Any, TextIO

from ..errors import EverywordError
from ..messages.message import Part, UIMessage
from ..messages.tool_calls import is_tool_part, tool_name
from .chat import ChatClient
from .reply import Reply

__all__ = ["Terminal"]

_STATES = {
    "input-available": "runs",
    "output-available": "done",
    "output-error": "failed",
    "output-denied": "denied",
}
HELP = "/clear begins anew, /again asks again, /history shows it all, /quit leaves; Ctrl-C stops an answer."


class Terminal:
    """Talks to one chat until its input ends, somebody says /quit, or Ctrl-C comes while nothing runs.

    The first Ctrl-C stops the turn, the second one leaves. Prompts are shown to people only, not to pipes.
    """

    def __init__(self, chat: ChatClient, lines: TextIO = sys.stdin, out: TextIO = sys.stdout) -> None:
        self._chat, self._input, self._out = chat, lines, out
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._is_person = lines.isatty()
        self._leaving = asyncio.Event()
        self._is_answering = False
        self._has_stopped = False
        self._stopping: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Return the exit status: 1 when the last answer failed."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="reading the terminal", daemon=True).start()
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not every platform and thread has signals
            loop.add_signal_handler(signal.SIGINT, self.interrupt)
        talking = asyncio.create_task(self._talk(), name="talking")
        leaving = asyncio.create_task(self._leaving.wait(), name="leaving")
        try:
            await asyncio.wait([talking, leaving], return_when=asyncio.FIRST_COMPLETED)
            return talking.result() if talking.done() else 130
        finally:
            for task in (talking, leaving, self._stopping):
                if task is not None:
                    task.cancel()
            await asyncio.gather(talking, leaving, return_exceptions=True)

    def interrupt(self) -> None:
        """Stop the turn, or leave when none runs or it is already being stopped."""
        if not self._is_answering or self._has_stopped:
            self._leaving.set()
            return
        self._has_stopped = True
        self._stopping = asyncio.create_task(self._chat.stop(), name="stopping")

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError, ValueError):  # the loop or the input is closed
            for line in self._input:
                loop.call_soon_threadsafe(self._lines.put_nowait, line.rstrip("\n"))
            loop.call_soon_threadsafe(self._lines.put_nowait, None)

    async def _talk(self) -> int:
        status = 0
        if self._is_person:
            self._say(f"{HELP}\n")
        for message in self._chat.messages[-6:]:
            self._say(f"{message.role}: {message.text}\n")
        if self._chat.status != "ready" and self._chat.protocol.running:
            status = await self._show(self._chat.follow())
        while True:
            self._prompt("> ")
            line = await self._lines.get()
            if line is None or line.strip() == "/quit":
                return status
            match line.strip():
                case "":
                    continue
                case "/clear":
                    await self._chat.clear()
                case "/history":
                    for message in self._chat.messages:
                        self._say(f"{message.role}: {message.text}\n")
                case "/again":
                    status = await self._show(self._chat.regenerate())
                case "/help":
                    self._say(f"{HELP}\n")
                case text:
                    status = await self._show(self._chat.send(text))

    async def _show(self, reply: Reply) -> int:
        """Write an answer as it grows, asking for approvals as they come up."""
        self._is_answering, self._has_stopped = True, False
        shown = _Shown()
        try:
            async for message in reply:
                self._say(shown.news(message))
                for part in self._chat.pending_approvals:
                    await self._approve(part)
            ending = f" [{reply.outcome}]" if reply.outcome not in (None, "completed") else ""
            self._say(f"{ending}\n")
        except EverywordError as error:
            self._say(f"\n[error] {error}\n")
            return 1
        finally:
            self._is_answering = False
        return 0

    async def _approve(self, part: Part) -> None:
        self._say(f"\nallow {tool_name(part)}({_brief(part.get('input'))})? [y/N] ")
        line = await self._lines.get()
        if line is not None and line.strip().lower() in ("y", "yes"):
            await self._chat.approve(part["toolCallId"])
        else:
            await self._chat.deny(part["toolCallId"])

    def _prompt(self, text: str) -> None:
        if self._is_person:
            self._say(text)

    def _say(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class _Shown:
    """How much of a growing message has been written."""

    def __init__(self) -> None:
        self._texts: dict[int, int] = {}
        self._states: dict[str, Any] = {}

    def news(self, message: UIMessage) -> str:
        """Return what has come since, in the order of the parts."""
        news = ""
        for place, part in enumerate(message.parts):
            if part["type"] == "text":
                news += part["text"][self._texts.get(place, 0) :]
                self._texts[place] = len(part["text"])
            elif is_tool_part(part):
                news += self._tool_news(part)
        return news

    def _tool_news(self, part: Part) -> str:
        call, state = part["toolCallId"], part.get("state")
        if state not in _STATES or self._states.get(call) == state:
            return ""
        self._states[call] = state
        said = part.get("input") if state == "input-available" else part.get("output", part.get("errorText"))
        return f"\n[{tool_name(part)} {_STATES[state]}: {_brief(said)}]\n"


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
