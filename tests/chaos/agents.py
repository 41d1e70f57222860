"""Agents of every sort, for a server that is killed again and again. What they say follows from the question alone.

Every attempt goes on where the one before was cut off. Effects of tools are lines of a file that outlives the process,
so that afterwards they can be counted; so are the calls of the response hook.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final

from everyword import AIChatAgent, ChatError, Recovery, Retry, SaveMessagesResult, Stop, Turn, TurnLimits
from everyword.agents.tools import ToolContext, tool
from everyword.messages.message import UIMessage

__all__ = ["AGENTS", "FORGETFUL", "IDEMPOTENT", "KINDS", "Notes"]

IDEMPOTENT: Final = frozenset({"look"})
"""Tools that may do what they do more than once."""


FORGETFUL: Final = frozenset({"forgetful"})
"""Kinds whose answers may lose words again: they say so."""


class Notes:
    """Lines that a killed process cannot take back. Each is written whole: a pipe's worth, to the end of the file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def add(self, *words: str) -> None:
        os.write(self._file, (" ".join(words) + "\n").encode())


class Dropped(ConnectionError):
    """A provider's connection that broke: it may work the next time."""

    retryable = True


async def pause(seconds: float) -> None:
    """Take as long as a model would."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()


class Speaker(AIChatAgent):
    """Says some words, and knows which of them were said before."""

    notes: ClassVar[Notes]
    words: ClassVar[int] = 12
    pace: ClassVar[float] = 0.0

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        async for word in self.talk(turn):
            yield word

    async def talk(self, turn: Turn) -> AsyncIterator[str]:
        question, answer = self.exchange()
        chance, said = Random(question), len(answer.text) if answer is not None else 0
        for number in range(chance.randint(1, self.words)):
            word = f"{chance.choice(('red', 'green', 'blue'))}{number} "
            if said >= len(word):
                said -= len(word)
                continue
            await self.before(number, turn, chance)
            yield word
            await pause(self.pace)

    async def before(self, number: int, turn: Turn, chance: Random) -> None:
        """Do something before a word that was not said yet."""

    def exchange(self) -> tuple[str, UIMessage | None]:
        """Return the question, and what there is of its answer."""
        last = self.messages[-1]
        if last.role == "user":
            return last.text, None
        return next(message.text for message in reversed(self.messages) if message.role == "user"), last

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        self.notes.add("hook", self.name, result.request_id, result.status)


class Plain(Speaker):
    """Nothing special."""


class Quick(Speaker):
    words = 400


class Slow(Speaker):
    words, pace = 30, 0.03
    turn_limits = TurnLimits(max_attempts=100)


class Failing(Speaker):
    """Fails in the middle now and then, with a public text or a private one."""

    async def before(self, number: int, turn: Turn, chance: Random) -> None:
        match Random(f"{turn.id} {number}").randrange(12):
            case 0:
                raise ChatError("No more credit.")
            case 1:
                raise RuntimeError("secret")


class Flaky(Speaker):
    """Loses its provider in the first attempt, and is tried again."""

    pace = 0.005

    async def before(self, number: int, turn: Turn, chance: Random) -> None:
        if turn.attempt == 1 and number == 3:
            raise Dropped("reset by peer")


class Stalling(Speaker):
    """Falls silent in the first attempt, and is asked again."""

    turn_limits = TurnLimits(stall_timeout=0.2)

    async def before(self, number: int, turn: Turn, chance: Random) -> None:
        if turn.attempt == 1 and number == 2:
            await asyncio.Event().wait()


class Clerk(Speaker):
    """Calls its tools by hand."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        for name in ("send", "look", "ship"):
            with suppress(ChatError):  # it was interrupted, and its effect is not known
                await turn.call_tool(name, to=turn.id)
        async for word in self.talk(turn):
            yield word

    @tool
    async def send(self, to: str, context: ToolContext) -> str:
        """Must not happen twice."""
        self.notes.add("effect", "send", context.idempotency_key)
        await pause(0.002)
        return f"sent to {to}"

    @tool
    async def ship(self, to: str, context: ToolContext) -> AsyncIterator[Any]:
        """Must not happen twice, and says how far it is."""
        self.notes.add("effect", "ship", context.idempotency_key)
        for state in ("packed", "gone", "there"):
            yield {"to": to, "state": state}
            await pause(0.002)

    @tool(idempotent=True)
    async def look(self, to: str, context: ToolContext) -> str:
        """May happen as often as it likes."""
        self.notes.add("effect", "look", context.idempotency_key)
        await pause(0.002)
        return f"looked at {to}"


class Stepper(Clerk):
    """Lets a model call the tools, all at once."""

    calls: ClassVar[tuple[str, ...]] = ("send", "look", "ship")

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        async for step in turn.steps():
            async for chunk in step.run(self.model(turn, step.messages[-1])):
                yield chunk

    async def model(self, turn: Turn, last: UIMessage) -> AsyncIterator[Any]:
        answer = last if last.role == "assistant" else None
        made = {part["toolCallId"] for part in answer.parts if "toolCallId" in part} if answer is not None else set()
        wanted = [(f"{turn.message_id}-{name}", name) for name in self.calls]
        missing = [(call, name) for call, name in wanted if call not in made]
        said = answer.text if answer is not None else ""
        yield {"type": "start-step"}
        if missing and not said:
            yield "One moment. "
        for call, name in missing:
            yield {"type": "tool-input-available", "toolCallId": call, "toolName": name, "input": {"to": turn.id}}
        if not missing:
            whole = ["One moment. ", "All ", "is ", "done."]
            for place, word in enumerate(whole):
                if len(said) < len("".join(whole[: place + 1])):
                    yield word
                    await pause(0.005)
        yield {"type": "finish-step"}


class Careful(Stepper):
    """Asks a person first."""

    calls = ("refund",)

    @tool(needs_approval=True)
    async def refund(self, to: str, context: ToolContext) -> str:
        """Must not happen twice, and needs an approval."""
        self.notes.add("effect", "refund", context.idempotency_key)
        await pause(0.002)
        return f"refunded {to}"


class Locating(Stepper):
    """Asks the page."""

    calls = ("where",)

    @tool(client=True)
    async def where(self, to: str) -> str:
        """Say where the user is."""


class Hasty(Speaker):
    """Answers the last question only."""

    message_concurrency = "latest"
    pace = 0.005


class Picky(Speaker):
    """Takes no question while it answers."""

    message_concurrency = "drop"
    pace = 0.005


class Forgetful(Stalling):
    """Begins anew whenever it was cut off, or fell silent."""

    async def on_chat_recovery(self, ctx: Recovery) -> Retry:
        return Retry()


class Resigned(Slow):
    """Has enough when it was cut off: says so, or nothing."""

    async def on_chat_recovery(self, ctx: Recovery) -> Stop:
        return Stop("It was too late." if Random(ctx.request_id).random() < 0.5 else None)


AGENTS: Final = (
    *(Plain, Quick, Slow, Failing, Flaky, Stalling, Forgetful, Resigned),
    *(Clerk, Stepper, Careful, Locating, Hasty, Picky),
)
KINDS: Final = tuple(cls.__name__.lower() for cls in AGENTS)
