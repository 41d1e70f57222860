"""Texts of exceptions stay in the process: no frame, response, model, stored message or export has them."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, TypeAdapter

from everyword import AIChatAgent, Everyword, Principal, Turn, agent_tool, create_ui_message_stream, tool
from everyword import callable as callable_
from everyword.cli import main
from everyword.errors import BadChunk, CallFailed, EverywordError, FoldError, LogUnavailable, UsageError
from tests.server.kit import ask, connect, question, reading, serving
from tests.server.sockets import Socket, socket

SECRET = "hunter2"
THEIRS = ("built-in", "system", "noted", "grouped", "pydantic")
OURS = ("sql", "usage", "log", "client", "chunk", "fold", "state")
EVERY = (*THEIRS, *OURS)


class Counted(BaseModel):
    count: int = 0


class Unreadable:
    """A value that fails while it is made JSON."""

    def model_dump(self, mode: str) -> Any:
        raised.append("json")
        raise ValueError(SECRET)


raised: list[str] = []
"""The faults that happened."""

seen: list[str] = []
"""What models were sent."""


async def fault(agent: Any, name: str) -> Any:
    """Fail in one of many ways, each with the secret in its text."""
    raised.append(name)
    match name:
        case "built-in":
            raise ValueError(SECRET)
        case "system":
            raise PermissionError(13, "no access", f"/etc/{SECRET}")
        case "noted":
            error = KeyError("account")
            error.add_note(SECRET)
            raise error
        case "grouped":
            raise ExceptionGroup(SECRET, [ValueError(SECRET)])
        case "pydantic":
            TypeAdapter(int).validate_python(SECRET)
        case "sql":
            await agent.sql(f"SELECT '{SECRET}' FROM nowhere")
        case "state":
            await agent.set_state({"count": SECRET})
        case "json":
            raised.pop()
            return Unreadable()
    raise _ours(name)


def _ours(name: str) -> EverywordError:
    kinds: dict[str, type[EverywordError]] = {"usage": UsageError, "log": LogUnavailable, "client": CallFailed}
    kinds |= {"chunk": BadChunk, "fold": FoldError}
    return kinds[name](SECRET)


class Child(AIChatAgent):
    """Works as a tool, and fails where its input says: `where name`."""

    state_model = Counted

    async def agent_tool_input(self, input: Any) -> Any:
        return await self._at("input", input) or input

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        yield "so far"
        await self._at("turn", self.messages[-1].text)

    async def agent_tool_output(self, result: Any) -> Any:
        return await self._at("summary", self.messages[0].text) or "done"

    async def _at(self, place: str, text: str) -> Any:
        where, name = text.split()
        return await fault(self, name) if where == place else None


class Chat(AIChatAgent):
    """Does what the question says: `turn name`, `ui name`, `call name`, or `tool name` for any of its tools."""

    state_model = Counted
    tools = [agent_tool(Child)]  # noqa: RUF012

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        way, name = self.messages[-1].text.split(" ", 1)
        if way == "turn":
            yield "so far"
            await fault(self, name)
        elif way == "ui":
            async for chunk in create_ui_message_stream(lambda writer: fault(self, name)):
                yield chunk
        elif way == "hello":
            yield "hello"
        elif way == "call":
            await turn.call_tool("later", name=name)
        else:
            async for step in turn.steps():
                seen.append(json.dumps([message.to_dict() for message in step.messages]))
                async for chunk in step.run(_model(way, name, step.number)):
                    yield chunk

    @tool
    async def later(self, name: str) -> Any:
        return await fault(self, name)

    @tool
    async def stepwise(self, name: str) -> Any:
        yield "so far"
        yield await fault(self, name)

    @tool
    def threaded(self, name: str) -> Any:
        raised.append(name)
        raise ValueError(SECRET)

    @callable_
    async def direct(self, name: str) -> Any:
        return await fault(self, name)

    @callable_
    async def streamed(self, name: str) -> Any:
        yield 1
        yield await fault(self, name)

    @callable_
    async def background(self, name: str) -> Any:
        return await self.run_fiber(f"{name}-{len(raised)}", lambda context: fault(self, name))

    @callable_
    async def queued(self, name: str) -> str:
        return await self.queue("job", name, max_attempts=1)

    async def job(self, name: str) -> None:
        await fault(self, name)

    async def on_request(self, request: Any) -> Any:
        return await fault(self, request.query_params["fault"])

    async def on_message(self, connection: Any, message: str) -> None:
        await fault(self, message)

    def validate_state_change(self, state: Any, source: Any) -> None:
        if source != "server":
            raised.append("state")
            raise ValueError(SECRET)

    async def on_before_sub_agent(self, request: Any, child: Any) -> Any:
        return await fault(self, request.query_params["fault"])


def _model(way: str, name: str, step: int) -> list[Any]:
    if step > 1:
        return ["I see."]
    given = {"input": name} if way == "child" else {"name": name}
    call = {"type": "tool-input-available", "toolCallId": f"c{len(raised)}", "toolName": way, "input": given}
    return [{"type": "start-step"}, call, {"type": "finish-step"}]


async def authorize(connecting: Any) -> Principal:
    if "unknown" in connecting.request.query_params:
        await fault(None, connecting.request.query_params["unknown"])
    return Principal("ann")


# -- the doors ---------------------------------------------------------------------------------------------------------


@dataclass
class Outside:
    """A client: its socket, its HTTP, and the bodies that it read."""

    url: str
    page: Socket
    http: httpx.AsyncClient
    bodies: list[str] = field(default_factory=list)
    asked: int = 0

    async def ask(self, text: str) -> None:
        """Ask over HTTP, while the socket watches."""
        self.asked += 1
        key = f"request-{self.asked}"
        self.bodies.append((await ask(self.http, question(f"u-{key}", text), idempotency_key=key)).raw.decode())
        await self.page.ended(key)

    async def call(self, method: str, *args: Any) -> None:
        key = f"call-{len(raised)}"
        await self.page.send(type="rpc", id=key, method=method, args=list(args))
        await self.page.until(lambda frame: frame.get("id") == key and frame.get("done") is not False)

    async def get(self, path: str, *statuses: int) -> None:
        response = await self.http.get(path)
        assert response.status_code in statuses
        self.bodies.append(response.text)

    async def follow(self, kind: str, count: int = 1) -> None:
        """Read the log over HTTP until it has so many events of a kind."""
        found = 0

        def is_enough(event: Any) -> bool:
            nonlocal found
            found += f'"{kind}"' in event.data
            return found >= count

        async with reading(self.http, "GET", "events?after=0") as reader:
            await reader.until(is_enough)
            self.bodies.append(reader.raw.decode())


async def by_job(outside: Outside, name: str) -> None:
    await outside.call("queued", name)
    await outside.follow("job.ended", len(raised))


async def by_own_frame(outside: Outside, name: str) -> None:
    await outside.page.connection.send(name)
    await outside.call("settled")


async def by_state(outside: Outside, name: str) -> None:
    await outside.page.send(type="cf_agent_state", state={"count": 1})
    await outside.page.until(lambda frame: frame["type"] == "cf_agent_state_error")


async def by_door(outside: Outside, name: str) -> None:
    await outside.get(f"get-messages?unknown={name}", 500)
    async with socket(outside.url, f"?unknown={name}") as refused:
        outside.bodies.append((await refused.closed())[1])


Door = Callable[[Outside, str], Awaitable[None]]
AWAY = tuple(name for name in EVERY if name not in ("sql", "state"))  # no agent is there
FINAL = tuple(name for name in EVERY if name != "log")  # work that the log stopped is done again later

DOORS: dict[str, tuple[Door, tuple[str, ...]]] = {
    "a turn": (lambda outside, name: outside.ask(f"turn {name}"), EVERY),
    "a written stream": (lambda outside, name: outside.ask(f"ui {name}"), EVERY),
    "a tool": (lambda outside, name: outside.ask(f"later {name}"), (*EVERY, "json")),
    "a tool that yields": (lambda outside, name: outside.ask(f"stepwise {name}"), (*EVERY, "json")),
    "a tool in a thread": (lambda outside, name: outside.ask(f"threaded {name}"), ("built-in",)),
    "a tool called by code": (lambda outside, name: outside.ask(f"call {name}"), (*EVERY, "json")),
    "a run's input": (lambda outside, name: outside.ask(f"child input {name}"), EVERY),
    "a run's turn": (lambda outside, name: outside.ask(f"child turn {name}"), EVERY),
    "a run's summary": (lambda outside, name: outside.ask(f"child summary {name}"), EVERY),
    "a callable": (lambda outside, name: outside.call("direct", name), (*EVERY, "json")),
    "a callable that streams": (lambda outside, name: outside.call("streamed", name), (*EVERY, "json")),
    "a fiber": (lambda outside, name: outside.call("background", name), EVERY),
    "a job": (by_job, FINAL),
    "on_request": (lambda outside, name: outside.get(f"page?fault={name}", 500), EVERY),
    "on_message": (by_own_frame, EVERY),
    "a state": (by_state, ("state",)),
    "authorize": (by_door, AWAY),
    "a sub-agent": (lambda outside, name: outside.get(f"sub/child/x/get-messages?fault={name}", 500, 503), EVERY),
}


@pytest.mark.parametrize("door", DOORS)
async def test_the_text_of_an_exception_does_not_leave(
    door: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, faults = DOORS[door]
    raised.clear()
    seen.clear()
    monkeypatch.chdir(tmp_path)
    app = Everyword([Chat], store="log.db", authorize=authorize)
    app.grace = 0.0
    with caplog.at_level(logging.INFO):
        async with serving(app) as url, socket(url) as page, connect(f"{url}/agents/chat/ann") as http:
            outside = Outside(url, page, http)
            await page.greeted()
            for name in faults:
                await go(outside, name)
            await outside.get("get-messages", 200)
            await outside.ask("hello there")
            await outside.follow("turn.ended", outside.asked)
            async with socket(url) as late:
                await late.settled()
    assert set(raised) == set(faults), "every fault happened"
    assert SECRET in caplog.text, "and the operator can read why"
    assert await asyncio.to_thread(main, ["export", "ann", "-o", "ann.gz", "--db", "log.db"]) == 0
    exported = gzip.decompress(await asyncio.to_thread(Path("ann.gz").read_bytes)).decode()
    left = [*outside.bodies, *map(json.dumps, page.frames), *map(json.dumps, late.frames), *seen, exported]
    assert [text for text in left if SECRET in text] == []
