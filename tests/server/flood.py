"""An application for `everyword serve`: an agent that holds, one that floods, and how much memory all of it took."""

from __future__ import annotations

import resource
import sys
from typing import Any

from everyword.agents import AIChatAgent, Turn
from everyword.server import Everyword

BLOBS = 12_800
BLOB = "x" * 4096
"""50 MB in all, each in the place of the one before, so that the message itself stays small."""


class Flood(AIChatAgent):
    """Says what it is asked for: `hold` until it is stopped, `flood`, or `memory`."""

    async def on_chat_message(self, turn: Turn) -> Any:
        match self.messages[-1].text:
            case "hold":
                await turn.cancelled
            case "flood":
                for _ in range(BLOBS):
                    yield {"type": "data-blob", "id": "one", "data": BLOB}
            case "memory":
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                yield str(peak * (1 if sys.platform == "darwin" else 1024))


app = Everyword([Flood], store=sys.argv[sys.argv.index("--") + 1] if "--" in sys.argv else "memory:")
