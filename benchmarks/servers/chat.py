"""everyword, as users run it: `everyword serve`, one SQLite file. Only the limits of one client are lifted."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import PlainTextResponse

from benchmarks.servers.source import ask_of, deltas, filling
from everyword import AIChatAgent, Everyword, Limits, Turn


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        async for delta in deltas(ask_of(turn.body)):
            yield delta

    async def on_request(self, request: Request) -> PlainTextResponse | None:
        if not request.url.path.endswith("/fill"):
            return None
        messages = filling(int(request.query_params["messages"]))
        await self.persist_messages(messages)
        return PlainTextResponse(str(len(messages)))


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
)
