"""An agent to try everything with: it answers from a script, word by word, and needs no model and no key.

It shows what the framework is for: killed in the middle of a sentence, it goes on behind the last word that was
committed, because it looks at what it has said already and not at what it remembers.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from .agents import AIChatAgent, Turn
from .errors import ChatError
from .messages.message import Chunk, UIMessage

__all__ = ["Demo", "script_for"]

PAUSE = 0.045
"""Seconds per word: about as fast as one reads along."""

FORECAST = {"place": "the harbour", "sky": "clear", "wind": "light, from the west", "degrees": 17}

HELLO = """\
Hello! I am a scripted agent: no model, no key, and always the same words. What I am good at is not losing any \
of them.

Every word that you see was written to a log before it was shown to you. So you may reload this page, open it in \
a second tab, pull the network cable, or kill the server with `kill -9`: start it again, and I go on with the \
very next word of the sentence I was in.

Ask me for something long and try it. You can also ask me to use a tool, or to run into an error."""

TOOL_BEFORE = (
    "Let me look that up with a tool. The call is in the log before the tool runs, its result right after it. "
)

TOOL_AFTER = """\
The forecast for the harbour says a clear sky, 17 degrees, and a light wind from the west: a good day to sail.

Had the server died between the call and its result, the next one would have found the open call in the log, and \
would not have asked twice."""

ERROR_BEFORE = """\
I will now fail, on purpose and in the middle of a sentence. Watch what happens to the words that are already \
here: they stay, because they were committed, and every tab shows the same ending to the same"""

ERROR_TEXT = "The demo failed on purpose. What was said before stays, and you can ask again."

LONG = """\
Once there was a lighthouse keeper who wrote down everything that happened, the moment it happened, in one thick \
book.

When a ship passed, she wrote it down, and only then did she wave. When the wind turned, she wrote it down, and \
only then did she tell the village. People found that odd at first. Why not wave first, they asked, and write \
later, when there is time? Because, she said, what I have shown you I can never take back, and what I have not \
written I may forget.

One night a storm put out the light, and the keeper with it: she fell asleep at her desk, pen in hand, in the \
middle of a sentence. In the morning another keeper came up the stairs. He did not know what she had been \
thinking. He did not need to. He opened the book, read the last line, and finished the sentence.

Nobody in the village noticed that there had been a change of keepers. The ships that had seen half of a signal \
saw the other half. The ones that arrived late read the book from the page where they had left off, and knew as \
much as those who had watched all night.

Years later a visitor asked for the secret of the place. Was it the lamp? Was it the tower? The keeper shook his \
head and pointed at the desk. One book, he said. One hand that writes in it at a time. And nothing is ever shown \
that is not in it. Everything else on this coast you could burn down and build again from these pages.

The visitor thought about that for a while. And if two keepers write at once, she asked. Then the newer one is \
right, he said, because we count the keepers, and the book takes no line from an older one. And if somebody \
reads very slowly? Then the book waits, he said. It is only a finger on a page; it costs us nothing.

She looked at the sea, where a ship was just passing. The keeper had already written it down. Now he waved."""

Step = str | Chunk | Exception | float
"""Words to say, a chunk to add, an error to end with, or a number of pauses to make."""


class Demo(AIChatAgent):
    """Answers from a script that depends on the question alone."""

    pause = PAUSE

    async def on_chat_message(self, turn: Turn) -> Any:
        """Say what the script has beyond what was said already."""
        said = self.messages[-1] if turn.continuation else None
        question = next((message.text for message in reversed(self.messages) if message.role == "user"), "")
        for step in _rest(script_for(question, call=f"call-{turn.message_id}"), said):
            if isinstance(step, Exception):
                raise step
            if isinstance(step, float):
                await asyncio.sleep(step * self.pause)
            else:
                yield step
                await asyncio.sleep(self.pause)


def script_for(question: str, *, call: str = "call-1") -> list[Step]:
    """Return the whole answer to a question, word by word; the same every time."""
    asked = question.lower()
    if re.search(r"\b(tools?|weather|forecast)\b", asked):
        place = {"place": FORECAST["place"]}
        return [
            *_words(TOOL_BEFORE),
            {"type": "tool-input-available", "toolCallId": call, "toolName": "forecast", "input": place},
            25.0,
            {"type": "tool-output-available", "toolCallId": call, "output": FORECAST},
            *_words(TOOL_AFTER),
        ]
    if re.search(r"\b(errors?|fail|failure)\b", asked):
        return [*_words(ERROR_BEFORE), ChatError(ERROR_TEXT)]
    if re.search(r"\b(long|story)\b", asked):
        return [*_words(LONG)]
    return [*_words(HELLO)]


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*", text)


def _rest(script: list[Step], said: UIMessage | None) -> list[Step]:
    """Return the script without what a message already has: as many characters, and the calls that it shows."""
    left = len(said.text) if said is not None else 0
    states = {part.get("toolCallId"): part.get("state") for part in said.parts} if said is not None else {}
    rest: list[Step] = []
    for step in script:
        if isinstance(step, str):
            left -= len(step)
            if left < 0:
                rest.append(step[left:] if -left < len(step) else step)
                left = 0
        elif isinstance(step, dict):
            is_output = step["type"] == "tool-output-available"
            state = states.get(step["toolCallId"])
            if state is None or (is_output and state == "input-available"):
                rest.append(step)
        elif not isinstance(step, float) or "output-available" not in states.values():
            rest.append(step)
    return rest
