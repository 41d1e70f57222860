"""A real `everyword serve` is told to stop with all kinds of work in the middle: as little is lost as by SIGKILL.

Each agent does one kind of work: it has its effect, waits at a gate, and then uses its own API. A stop with a grace
period lets it pass the gate and finish. A stop without one, or with a short one, leaves what SIGKILL leaves.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from everyword.messages.repair_tool_calls import INTERRUPTED
from tests.cli.kit import Running, running
from tests.server.kit import PATIENCE

pytestmark = pytest.mark.crash

APP = """
import asyncio, os
from starlette.responses import JSONResponse
from everyword import AIChatAgent, Everyword, ToolError, agent_tool, tool

class Helper(AIChatAgent):
    async def on_chat_message(self, turn):
        if "slow" in self.messages[-1].text:
            await waited()
        yield "helped"

class Worker(AIChatAgent):
    tools = [agent_tool(Helper)]

    async def on_chat_message(self, turn):
        async for step in turn.steps():
            async for chunk in step.run(ask_model(step.messages)):
                yield chunk

    @tool
    async def work(self, kind: str) -> str:
        note(kind)
        try:
            await waited()
        except asyncio.CancelledError:
            if kind == "clumsy":
                raise ToolError("I was cut off") from None
            raise
        match kind:
            case "state":
                await self.set_state({{"kind": kind}})
            case "queue":
                await self.queue("later", "queued")
            case "fiber":
                await self.fibers.start("quick", self.quick)
            case "run":
                return (await self.run_agent_tool(Helper, "quick")).summary
            case "sub":
                child = await self.sub_agent(Helper, "kid")
                question = {{"id": "q", "role": "user", "parts": [{{"type": "text", "text": "quick"}}]}}
                return (await child.save_messages([question])).message.text
        return "done"

    async def later(self, what):
        note(what)

    async def quick(self, fiber):
        note("quick fiber")

    async def slow(self, fiber):
        note(f"slow fiber from {{fiber.snapshot}}")
        if fiber.snapshot is None:
            await fiber.stash("begun")
        try:
            await waited()
        except asyncio.CancelledError:
            raise RuntimeError("I was cut off") from None
        await fiber.stash("over")
        await self.set_state({{"kind": "slow"}})

    async def job(self, what):
        note("job")
        await waited()
        await self.set_state({{"kind": "job"}})

    async def on_fiber_recovered(self, ctx):
        await self.fibers.start(ctx.name, getattr(self, ctx.name))

    async def on_request(self, request):
        match request.method, request.url.path.rpartition("/")[2]:
            case "POST", "slow":
                await self.fibers.start("slow", self.slow, fiber_id="slow")
            case "POST", "job":
                await self.queue("job")
        fibers = {{each.name: each.status for each in await self.fibers.list()}}
        return JSONResponse({{"state": self.state, "fibers": fibers, "jobs": len(await self.jobs.list(queued=True))}})

async def ask_model(messages):
    last = messages[-1]
    calls = [part for part in last.parts if part["type"].startswith("tool-")]
    yield {{"type": "start-step"}}
    if calls:
        yield str(calls[-1].get("output", calls[-1].get("errorText")))
    elif last.text == "child":
        given = {{"input": "slow"}}
        yield {{"type": "tool-input-available", "toolCallId": "call-1", "toolName": "helper", "input": given}}
    else:
        given = {{"kind": last.text}}
        yield {{"type": "tool-input-available", "toolCallId": "call-1", "toolName": "work", "input": given}}
    yield {{"type": "finish-step"}}

def note(line):
    with open("notes.txt", "a") as notes:
        print(line, file=notes)

async def waited():
    print("at the gate", flush=True)
    opened, loop = asyncio.Event(), asyncio.get_running_loop()
    pipe = os.open("gate", os.O_RDWR | os.O_NONBLOCK)
    loop.add_reader(pipe, opened.set)
    try:
        await opened.wait()
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)

app = Everyword([Worker], store="log.db")
app.grace = {grace}
"""
TOOLS = ("plain", "clumsy", "state", "queue", "fiber", "run", "sub")
NAMES = (*TOOLS, "child", "slow", "job")
LONG = 600.0
"""Seconds of grace that nothing needs."""


class Stage:
    """A folder with the app, its log, its notes, and the gate that all work waits at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        os.mkfifo(folder / "gate")
        self._gate = os.open(folder / "gate", os.O_RDWR | os.O_NONBLOCK)

    def open(self) -> None:
        os.write(self._gate, b"!")

    def close(self) -> None:
        os.close(self._gate)

    @property
    def notes(self) -> Counter[str]:
        return Counter((self.folder / "notes.txt").read_text(encoding="utf-8").splitlines())

    def process(self, grace: float) -> Any:
        (self.folder / "app.py").write_text(APP.format(grace=grace), encoding="utf-8")
        return running("serve", "app.py", "--port", "0", folder=self.folder)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


async def at_work(server: Running, client: httpx.AsyncClient) -> None:
    """Set every agent to work, and wait until each of them stands at the gate."""
    for name in (*TOOLS, "child"):
        question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": name}]}
        headers = {"prefer": "respond-async"}
        assert (await client.post(f"{name}/chat", json={"messages": [question]}, headers=headers)).status_code == 202
    for name in ("slow", "job"):
        assert (await client.post(f"{name}/{name}")).status_code == 200
    async with asyncio.timeout(PATIENCE):
        while server.said.count("at the gate") < len(NAMES):
            await server.until("(at the gate\n[^a]*){" + str(server.said.count("at the gate") + 1) + "}")


async def settled(client: httpx.AsyncClient) -> dict[str, Any]:
    """Wait until nothing runs any more; return what each agent's work came to."""
    found: dict[str, Any] = {}
    async with asyncio.timeout(PATIENCE):
        for name in NAMES:
            await client.get(f"{name}/chat/stream")  # ends with the turn, if there is one
            while (standing := (await client.get(f"{name}/standing")).json()) and not is_over(name, standing):
                pass
            messages = (await client.get(f"{name}/get-messages")).json()
            found[name] = {**standing, "said": said(messages)}
    return found


def is_over(name: str, standing: dict[str, Any]) -> bool:
    is_done = {"slow": standing["fibers"].get("slow") == "done", "job": standing["state"] == {"kind": "job"}}
    return bool(not standing["jobs"] and "running" not in standing["fibers"].values() and is_done.get(name, True))


def said(messages: list[dict[str, Any]]) -> list[str]:
    """What an answer's parts say, without ids."""
    return [
        json.dumps({key: part[key] for key in ("type", "state", "output", "errorText", "text") if key in part})
        for message in messages
        for part in message["parts"]
        if message["role"] == "assistant"
    ]


async def stopping(client: httpx.AsyncClient, url: str) -> None:
    """Wait until the server says that it stops."""
    async with asyncio.timeout(PATIENCE):
        while (await client.get(f"{url}/healthz")).json() != {"status": "stopping"}:
            pass


def client_of(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"{url}/agents/worker", timeout=PATIENCE)


async def gone(server: Running, *codes: int) -> None:
    assert await server.ended() in codes
    assert "Traceback" not in server.said


async def test_work_that_runs_finishes_within_the_grace_with_everything_it_needs(stage: Stage) -> None:
    async with stage.process(LONG) as server:
        url = await server.url()
        async with client_of(url) as client:
            await at_work(server, client)
            server.process.send_signal(signal.SIGTERM)
            await stopping(client, url)
            stage.open()
            await gone(server, 0, -signal.SIGTERM)
    once = dict.fromkeys([*TOOLS, "job", "slow fiber from None", "quick fiber"], 1)
    assert stage.notes == once, "nothing is done twice, and what was queued waits"
    async with stage.process(LONG) as server:
        async with client_of(await server.url()) as client:
            found = await settled(client)
    assert stage.notes == {**once, "queued": 1}
    outputs = {name: json.loads(found[name]["said"][1]) for name in (*TOOLS, "child")}
    assert {name: part["state"] for name, part in outputs.items()} == dict.fromkeys(outputs, "output-available")
    assert {name: part["output"] for name, part in outputs.items()} == {
        **dict.fromkeys(("plain", "clumsy", "state", "queue", "fiber"), "done"),
        **dict.fromkeys(("run", "sub", "child"), "helped"),
    }
    assert [found[name]["state"] for name in ("state", "slow", "job")] == [
        {"kind": n} for n in ("state", "slow", "job")
    ]


async def what_is_left(folder: Path, how: signal.Signals, grace: float) -> tuple[dict[str, Any], Counter[str]]:
    """Stop a process in the middle of everything; return what the next one makes of it, and the effects."""
    stage = Stage(folder)
    try:
        async with stage.process(grace) as server:
            url = await server.url()
            async with client_of(url) as client:
                await at_work(server, client)
                server.process.send_signal(how)
                await gone(server, -how, 0)
        stage.open()
        async with stage.process(LONG) as server:
            async with client_of(await server.url()) as client:
                return await settled(client), stage.notes
    finally:
        stage.close()


@pytest.mark.parametrize("grace", [0.0, 0.3])
async def test_what_does_not_finish_in_time_is_left_as_a_kill_leaves_it(tmp_path: Path, grace: float) -> None:
    killed, effects = await what_is_left(tmp_path / "killed", signal.SIGKILL, grace)
    stopped, same_effects = await what_is_left(tmp_path / "stopped", signal.SIGTERM, grace)
    assert stopped == killed
    assert same_effects == effects
    assert {name: effects[name] for name in TOOLS} == dict.fromkeys(TOOLS, 1), "an effect is not had twice"
    unknown = [json.loads(killed[name]["said"][1]).get("errorText") for name in TOOLS]
    assert unknown == [INTERRUPTED] * len(TOOLS), "nobody knows what became of a call"
    assert json.loads(killed["child"]["said"][1])["output"] == "helped", "a sub-agent's run goes on"
    assert (effects["slow fiber from None"], effects["slow fiber from begun"], effects["job"]) == (1, 1, 2)
    assert [killed[name]["state"] for name in ("slow", "job")] == [{"kind": "slow"}, {"kind": "job"}]
