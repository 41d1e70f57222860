"""The texts of the demo."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

HELLO = """\
Hello! I am a scripted agent: no model, no API key, and always the same words. I am here to show that none of \
them gets lost.

Every word that you see was written to a log before it was shown to you. You can reload this page, open it in a second \
tab, unplug the network, or kill the server with `kill -9`: start it again, and I continue with the next word of \
the sentence.

Ask me for a long story and try it. You can also ask me to use a tool, or to run into an error."""

TOOL_BEFORE = (
    "Let me look that up with a tool. The call is in the log before the tool runs, its result right after it. "
)

TOOL_AFTER = """\
The forecast for the harbour says a clear sky, 17 degrees, and a light wind from the west: a good day to sail.

If the server had died between the call and its result, the next one would have found the open call in the log and \
continued from there."""

ERROR_BEFORE = """\
I will now fail, on purpose and in the middle of a sentence. Watch what happens to the words that are already \
here: they stay, because they were committed, and every tab shows the same ending to the same"""

ERROR_TEXT = "The demo failed on purpose. The text before the error stays, and you can ask again."

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

PLAN_THOUGHT = """\
A day on the water needs three things: wind, water under the keel, and a way back. The wind turns in the \
afternoon. So: out early with the tide, lunch behind the island, home before the wind is against us."""

PLAN = """\
### A day on the water

Leave **with the tide** and come home *before the wind turns*:

| Time | Leg | Wind |
|------|-----|-----:|
| 08:10 | harbour to the bay | 2 Bft |
| 11:30 | behind the island, lunch at anchor | 1 Bft |
| 14:00 | home, on one long tack | 3 Bft |

Before you cast off:

1. Look at the chart below.
2. Tell somebody where you are going:
   - the harbour master, or
   - a log that cannot forget.
3. Check the depth. It is one line of code:

```python
def is_deep_enough(depth: float, draught: float = 1.6) -> bool:
    return depth - draught > 0.5
```

> Nothing is shown that is not in the book.

"""

PLAN_SOURCES = "I have this from:"

CHARTER_BEFORE = "A boat for the day costs 120. I need your approval before I pay. "

CHARTER_YES = """\
The *Everyword* is yours for the day. You approved the payment before it was made, and your approval is in the log: \
if the server had died in between, the boat would still have been paid for only once."""

CHARTER_NO = "Then we stay ashore. Nothing was paid, and the log has your refusal."

WHERE_BEFORE = "Only your page can tell me. The tool runs there: enter its result, and I continue in this message. "

WHERE_AFTER = "So you are here: {place}. I would not have guessed."

WHERE_FAILED = "The page could not tell. We will navigate by the stars."

SURVEY_BEFORE = "I am sounding the bay, one point after another. The numbers below grow while I work."

SURVEY_AFTER = """\
That is the bay. The numbers are data parts of this message, which were replaced as they grew; the notices were \
transient and are not stored."""

CREW_BEFORE = "I will not decide that alone, so I ask the crew. Each of them is an agent with its own log. "

CREW_AFTER = """\
The whole crew has answered. Each answer is in the log of its agent, and I keep only the conclusions. If you kill the \
server while they talk, they continue like I do."""

CREW: Final = {
    "lookout": "From the masthead I see **clear water** to the west, two sails, and no rocks where we mean to go.",
    "navigator": "By the chart it is *eleven miles* to the island. With this wind we are there before noon.",
    "cook": "There is bread for three days and soup for two. Nobody sails on an empty stomach; I vote that we go.",
}
"""Name of a sub-agent → its answer."""

SOUNDINGS: Final = [
    {"point": "north buoy", "depth": 7.5, "bottom": "sand"},
    {"point": "the narrows", "depth": 3.2, "bottom": "rock"},
    {"point": "middle", "depth": 12.0, "bottom": "mud"},
    {"point": "island", "depth": 4.1, "bottom": "sand"},
]

SOURCES: Final = [
    {"type": "source-url", "sourceId": "tides", "url": "https://example.org/tides", "title": "Tide tables"},
    {"type": "source-url", "sourceId": "wind", "url": "https://example.org/wind", "title": "Wind over the bay"},
    {
        "type": "source-document",
        "sourceId": "pilot",
        "mediaType": "application/pdf",
        "title": "The pilot book, page 12",
    },
]

_CHART: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 200" font-family="sans-serif" font-size="13">
<rect width="480" height="200" fill="#cfe8ef"/>
<path d="M0 200V120q60-30 110 5t70 75z" fill="#e9dcb8"/>
<path d="M300 40q45-25 80 5t-10 50-80-10 10-45z" fill="#e9dcb8"/>
<g fill="none" stroke="#0f766e" stroke-width="3" stroke-dasharray="7 6">
<path d="M120 130C180 60 250 150 330 110S420 60 400 30"/></g>
<circle cx="120" cy="130" r="6" fill="#0f766e"/><circle cx="400" cy="30" r="6" fill="#0f766e"/>
<text x="60" y="160" fill="#4b4632">harbour</text><text x="318" y="68" fill="#4b4632">island</text>
<text x="215" y="165" fill="#3d6f80">12.0</text><text x="190" y="90" fill="#3d6f80">3.2</text>
</svg>"""

CHART: Final = {
    "type": "file",
    "mediaType": "image/svg+xml",
    "filename": "chart.svg",
    "url": f"data:image/svg+xml,{quote(_CHART)}",
}
