"""everyword, as users run it: `everyword serve`. Only the limits of one client are lifted.

`BENCH_STORE` is its store. `BENCH_DURABILITY` and `BENCH_GRACE` replace the defaults of the app.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse

from benchmarks.servers.source import ask_of, deltas, filling
from everyword import AIChatAgent, Everyword, Limits, Turn


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        async for delta in deltas(ask_of(turn.body)):
            yield delta

    async def on_request(self, request: Request) -> PlainTextResponse | None:
        if request.url.path.endswith("/schedule"):
            await self.schedule(float(request.query_params["seconds"]), "woken")
            return PlainTextResponse("scheduled")
        if not request.url.path.endswith("/fill"):
            return None
        messages = filling(int(request.query_params["messages"]))
        await self.persist_messages(messages)
        return PlainTextResponse(str(len(messages)))

    async def woken(self) -> None:
        """Do nothing, at the time that was scheduled."""


_durability: Any = os.environ.get("BENCH_DURABILITY")

app = Everyword(
    [Chat],
    store=os.environ["BENCH_STORE"],
    limits=Limits(
        sockets_per_agent=10_000,
        sockets_per_principal=10_000,
        requests_per_minute=10_000_000,
        frames_per_minute=10_000_000,
        bytes_per_minute=10**12,
    ),
    retention=timedelta(days=int(os.environ.get("BENCH_RETENTION_DAYS", "1"))),
    **({"durability": _durability} if _durability else {}),
)
app.grace = float(os.environ.get("BENCH_GRACE", "10"))
