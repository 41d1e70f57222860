"""A chat in the terminal: it prints answers as they stream and tool calls as they run, and asks for approvals."""

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
    "input-available": "running",
    "output-available": "done",
    "output-error": "failed",
    "output-denied": "denied",
}
HELP = "Commands: /clear, /again (a new version of the last answer), /history, /help, /quit. Ctrl-C stops an answer."


class Terminal:
    """Runs one chat until the input ends, `/quit` is entered, or Ctrl-C is pressed while no answer streams.

    The first Ctrl-C stops the turn, the second one quits. Prompts are printed only if the input is a terminal.
    """

    def __init__(self, chat: ChatClient, lines: TextIO = sys.stdin, out: TextIO = sys.stdout) -> None:
        self._chat, self._input, self._out = chat, lines, out
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._is_interactive = lines.isatty()
        self._quitting = asyncio.Event()
        self._is_answering = False
        self._has_stopped = False
        self._stopping: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Run the chat; return the exit status: 1 if the last answer failed, 130 after Ctrl-C."""
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), name="reading the terminal", daemon=True).start()
        with suppress(NotImplementedError, RuntimeError, ValueError):  # not every platform and thread has signals
            loop.add_signal_handler(signal.SIGINT, self.interrupt)
        commands = asyncio.create_task(self._run_commands(), name="chat in the terminal")
        quitting = asyncio.create_task(self._quitting.wait(), name="waiting to quit")
        try:
            await asyncio.wait([commands, quitting], return_when=asyncio.FIRST_COMPLETED)
            return commands.result() if commands.done() else 130
        finally:
            for task in (commands, quitting, self._stopping):
                if task is not None:
                    task.cancel()
            await asyncio.gather(commands, quitting, return_exceptions=True)

    def interrupt(self) -> None:
        """Stop the turn; quit if none runs or it is already being stopped."""
        if not self._is_answering or self._has_stopped:
            self._quitting.set()
            return
        self._has_stopped = True
        self._stopping = asyncio.create_task(self._chat.stop(), name="stopping a turn")

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError, ValueError):  # the loop or the input is closed
            for line in self._input:
                loop.call_soon_threadsafe(self._lines.put_nowait, line.rstrip("\n"))
            loop.call_soon_threadsafe(self._lines.put_nowait, None)

    async def _run_commands(self) -> int:
        status = 0
        if self._is_interactive:
            self._print(f"{HELP}\n")
        for message in self._chat.messages[-6:]:
            self._print(f"{message.role}: {message.text}\n")
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
                        self._print(f"{message.role}: {message.text}\n")
                case "/again":
                    status = await self._show(self._chat.regenerate())
                case "/help":
                    self._print(f"{HELP}\n")
                case text:
                    status = await self._show(self._chat.send(text))

    async def _show(self, reply: Reply) -> int:
        """Print an answer as it streams, and ask for the approvals that it needs."""
        self._is_answering, self._has_stopped = True, False
        printed = _Printed()
        try:
            async for message in reply:
                self._print(printed.news(message))
                for part in self._chat.pending_approvals:
                    await self._approve(part)
            ending = f" [{reply.outcome}]" if reply.outcome not in (None, "completed") else ""
            self._print(f"{ending}\n")
        except EverywordError as error:
            self._print(f"\n[error] {error}\n")
            return 1
        finally:
            self._is_answering = False
        return 0

    async def _approve(self, part: Part) -> None:
        self._print(f"\nallow {tool_name(part)}({_brief(part.get('input'))})? [y/N] ")
        line = await self._lines.get()
        if line is not None and line.strip().lower() in ("y", "yes"):
            await self._chat.approve(part["toolCallId"])
        else:
            await self._chat.deny(part["toolCallId"])

    def _prompt(self, text: str) -> None:
        if self._is_interactive:
            self._print(text)

    def _print(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


class _Printed:
    """How much of a growing message has been printed."""

    def __init__(self) -> None:
        self._texts: dict[int, int] = {}
        self._states: dict[str, Any] = {}

    def news(self, message: UIMessage) -> str:
        """Return what is new in the message, in the order of its parts."""
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
        value = part.get("input") if state == "input-available" else part.get("output", part.get("errorText"))
        return f"\n[{tool_name(part)} {_STATES[state]}: {_brief(value)}]\n"


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"
