"""Agents whose questions contain the script of the answer, and gates at which an answer waits for the test.

A question whose first line is a JSON list is a script. Its steps: a string is said; `{"type": …}` is a chunk;
`{"gate": name}` waits until the test opens it; `{"fail": text}` raises what clients may read, `{"crash": text}` what
they may not; `{"repeat": text, "times": n}` says it n times; `{"echo": "body"}` says what the turn was given;
`{"sse": [chunks], "cut": n}` answers with the bytes of an event stream, cut every n bytes; `{"then": [steps]}` is what
a continuation plays. Any other question is answered with `You said: …`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from everyword.agents import AIChatAgent, Debounce, SaveMessagesResult, Turn
from everyword.errors import ChatError
from everyword.messages.message import UIMessage

__all__ = ["AGENTS", "BOOK", "Book", "Script"]

Step = str | dict[str, Any]
Script = list[Step]


@dataclass
class Book:
    """Calls and results of the agents of this process, and their gates; keyed by the agent's name."""

    calls: defaultdict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    results: defaultdict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    opened: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    reached: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    left: defaultdict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    ended: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def stand_at(self, gate: str) -> None:
        """Wait at a gate; note in `left` when the wait is cancelled."""
        self.reached[gate].set()
        try:
            await self.opened[gate].wait()
        except asyncio.CancelledError:
            self.left[gate].set()
            raise

    async def note_result(self, name: str, result: dict[str, Any]) -> None:
        async with self.ended:
            self.results[name].append(result)
            self.ended.notify_all()

    async def result(self, name: str, number: int) -> dict[str, Any]:
        """Wait for the end of the agent's turn with this number, and return its result."""
        async with self.ended:
            await self.ended.wait_for(lambda: len(self.results[name]) >= number)
        return self.results[name][number - 1]


BOOK: Final = Book()


class Chat(AIChatAgent):
    """Plays the script of the question it answers."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        book, texts = BOOK.calls[self.name], [message.text for message in self.messages]
        book.append(
            {
                "request": turn.id,
                "attempt": turn.attempt,
                "trigger": turn.trigger,
                "continuation": turn.continuation,
                "body": turn.body,
                "tools": turn.client_tools,
                "texts": texts,
            }
        )
        question, answer = _exchange(self.messages)
        steps, said = _rest(_script(question), answer)
        async for piece in self._play(steps, turn, said):
            yield piece

    async def _play(self, steps: Script, turn: Turn, said: int) -> AsyncIterator[Any]:
        """Yield the pieces of a script, from behind the first `said` characters of its text."""
        for step in _unrolled(steps):
            if said and not isinstance(step, str):
                continue  # an earlier attempt was here
            match step:
                case str():
                    piece, said = step[said:], max(said - len(step), 0)
                    if piece:
                        yield piece
                case {"gate": gate}:
                    await BOOK.stand_at(f"{self.name}/{gate}")
                case {"fail": text}:
                    raise ChatError(text)
                case {"crash": text}:
                    raise RuntimeError(text)
                case {"echo": "body"}:
                    yield msgspec.json.encode(turn.body, order="sorted").decode()
                case {"echo": "count"}:
                    yield str(len(BOOK.calls[self.name]))
                case {"sse": chunks, "cut": size}:
                    stream = b"".join(b"data: %b\n\n" % msgspec.json.encode(chunk) for chunk in chunks)
                    for first in range(0, len(stream), size):
                        yield stream[first : first + size]
                case _:
                    yield step

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        told = {"status": result.status, "error": result.error, "text": result.message and result.message.text}
        await BOOK.note_result(self.name, {"request": result.request_id, **told})


class Other(Chat):
    """A second class: its conversations are its own."""


class Latest(Chat):
    message_concurrency = "latest"


class Merge(Chat):
    message_concurrency = "merge"


class Drop(Chat):
    message_concurrency = "drop"


class Patient(Chat):
    message_concurrency = Debounce(0.3)


class Capped(Chat):
    max_persisted_messages = 4


class Trusting(Chat):
    trust_client_messages = True


class Silent(AIChatAgent):
    """Has nothing to say."""

    async def on_chat_message(self, turn: Turn) -> None:
        return None


AGENTS: Final = (Chat, Other, Latest, Merge, Drop, Patient, Capped, Trusting, Silent)


def _exchange(messages: list[UIMessage]) -> tuple[str, UIMessage | None]:
    """Return the last question, and what there is already of its answer."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user":
            answer = messages[place + 1] if place + 1 < len(messages) else None
            return messages[place].text, answer
    return "", None


def _script(question: str) -> Script:
    first = question.partition("\n")[0]
    try:
        return msgspec.json.decode(first, type=list[Any])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return ["You ", "said: ", question]


def _rest(script: Script, answer: UIMessage | None) -> tuple[Script, int]:
    """Return the part of a script that is to be played, and how many characters of it were said already.

    What an earlier attempt called is not called again. When all of the first part was said, this is a continuation.
    """
    first = [step for step in script if not (isinstance(step, dict) and "then" in step)]
    if answer is None:
        return first, 0
    known = {part["toolCallId"] for part in answer.parts if "toolCallId" in part}
    said, whole = len(answer.text), sum(len(step) for step in _unrolled(first) if isinstance(step, str))
    missing = [step for step in first if not (isinstance(step, dict) and step.get("toolCallId") in known)]
    if said < whole or any(isinstance(step, dict) and "toolCallId" in step for step in missing):
        return missing, said
    then: Script = next((step["then"] for step in script if isinstance(step, dict) and "then" in step), ["Thank you."])
    return then, said - whole


def _unrolled(script: Script) -> Iterator[Step]:
    for step in script:
        if isinstance(step, dict) and "repeat" in step:
            yield from [step["repeat"]] * step["times"]
        else:
            yield step
