"""The state over real sockets: many callers at once, and nothing that is not committed gets out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import msgspec
import pytest
from starlette.responses import JSONResponse
from websockets.exceptions import ConnectionClosedError

from everyword import Agent, ChatError, Everyword, Think, callable, tool
from everyword.errors import LogUnavailable
from everyword.events import StateSet, decode_event
from everyword.ids import AgentId, Seq
from everyword.log.base import Batch
from everyword.log.memory import MemoryLog
from everyword.testing import Call, Gate, LocalServer, ScriptedModel
from tests.runtime.facts import rounds
from tests.server.kit import connect, serving
from tests.server.test_agents import STATE, Page, app_of, page


class Counter(Agent):
    initial_state: ClassVar[Any] = {"n": 0}

    @callable
    async def add(self) -> int:
        """The usual way to write it."""
        await self.set_state({"n": self.state["n"] + 1})
        return int(self.state["n"])

    @callable
    def add_at_once(self) -> int:
        self.set_state({"n": self.state["n"] + 1})
        return int(self.state["n"])

    @callable
    async def count(self) -> AsyncIterator[int]:
        for _ in range(2):
            self.set_state({"n": self.state["n"] + 1})
            yield self.state["n"]

    @callable
    def fail(self) -> None:
        self.set_state({"n": 1})
        raise ChatError(f"there are {self.state['n']}")

    @callable
    def shout(self) -> str:
        shouted = {"shouted": self.set_state({"n": 1}) and self.state["n"]}
        self.broadcast(shouted)
        shouted["shouted"] = "changed later"
        self.broadcast("and on")
        return "shouted"

    @callable
    def nothing(self) -> None:
        """Change nothing."""

    async def on_request(self, request: Any) -> Any:
        self.set_state({"n": self.state["n"] + 1})
        return JSONResponse(self.state)


class Disk(MemoryLog):
    """Waits for the gate before it stores a state, and then fails if it is full."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.is_full, self.asked = Gate(), False, asyncio.Event()

    async def append_one(self, batch: Batch) -> None:
        if any(entry.kind == "state.set" for entry in batch.entries):
            self.asked.set()
            await self.gate.wait()
            if self.is_full:
                raise LogUnavailable("unable to append; the disk is full")
        await super().append_one(batch)


async def stored(app: Everyword, agent: str = "counter/ann") -> list[tuple[Any, str | None]]:
    """Return every state that was committed, and the socket that set it."""
    directory = (await app.service()).directory
    events = [decode_event(each.body) for each in await directory.store.read(AgentId(agent), Seq(0), 10_000)]
    return [(msgspec.json.decode(bytes(e.state)), e.origin) for e in events if isinstance(e, StateSet)]


async def greeted(tab: Page) -> None:
    await tab.until(lambda f: f.get("type") == "cf_agent_mcp_servers")
    tab.frames.clear()


async def results(tab: Page, count: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < count:
        frame = await tab.until(lambda f: isinstance(f, dict) and f.get("type") == "rpc")
        assert frame["success"], frame
        found.append(frame["result"])
    return found


@pytest.mark.parametrize("method", ["add", "add_at_once"])
async def test_fifty_calls_of_five_tabs_at_once_lose_nothing(method: str) -> None:
    app = app_of(Counter)
    async with serving(app) as url:
        async with page(url) as a, page(url) as b, page(url) as c, page(url) as d, page(url) as e:
            tabs = [a, b, c, d, e]
            for tab in tabs:
                await greeted(tab)
            for number in range(10):
                await asyncio.gather(*(tab.send(type="rpc", id=f"c{number}", method=method, args=[]) for tab in tabs))
            told = await asyncio.gather(*(results(tab, 10) for tab in tabs))
            if method == "add_at_once":
                assert sorted(each for of_tab in told for each in of_tab) == list(range(1, 51)), "what each made"
        assert await stored(app) == [({"n": number}, None) for number in range(1, 51)]


async def test_states_of_clients_and_of_the_agent_that_race_are_in_one_order() -> None:
    app = app_of(Counter)
    async with serving(app) as url, page(url) as one, page(url) as other, page(url) as third:
        for tab in (one, other, third):
            await greeted(tab)
        for number in range(20):
            await asyncio.gather(
                one.send(type="rpc", id=f"c{number}", method="add", args=[]),
                other.send(type=STATE, state={"n": 1000 * (number + 1)}),
                third.send(type="rpc", id=f"c{number}", method="add_at_once", args=[]),
            )
        await results(one, 20), await results(third, 20)
        await other.call("nothing")
        written = await stored(app)
        assert len(written) == 60 and sum(origin is not None for _, origin in written) == 20
        before = 0
        for state, origin in written:
            assert origin is not None or state["n"] == before + 1, "it was built on what is before it in the log"
            before = state["n"]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("add_at_once", [{"state": 1}, {"result": 1}]),
        ("count", [{"state": 1}, {"result": 1}, {"state": 2}, {"result": 2}, {"result": None}]),
        ("fail", [{"state": 1}, {"error": "there are 1"}]),
        ("shout", [{"state": 1}, {"shouted": 1}, "and on", {"result": "shouted"}]),
    ],
)
async def test_what_tells_of_a_state_leaves_behind_it(method: str, expected: list[Any]) -> None:
    disk = Disk()
    app = app_of(Counter, store=disk)
    async with serving(app) as url, page(url) as tab:
        await greeted(tab)
        await tab.send(type="rpc", id="c1", method=method, args=[])
        await disk.asked.wait()
        await rounds()
        assert app._directory.loaded()[0].reconciler.view.state_value in (None, b'{"n":0}')
        disk.gate.open()
        while len(tab.frames) < len(expected):
            await tab.next()
        assert [_told(frame) for frame in tab.frames] == expected


def _told(frame: Any) -> Any:
    """Return what a frame tells, without what is known."""
    if isinstance(frame, str) or "type" not in frame:
        return frame
    if frame["type"] == STATE:
        return {"state": frame["state"]["n"]}
    return {"result": frame.get("result")} if frame["success"] else {"error": frame["error"]}


async def test_an_answer_to_a_request_waits_for_the_states_that_it_may_tell_of() -> None:
    disk = Disk()
    async with serving(app_of(Counter, store=disk)) as url, connect(f"{url}/agents/counter/ann") as client:
        asked = asyncio.create_task(client.get("more"))
        await disk.asked.wait()
        await rounds()
        assert not asked.done()
        disk.gate.open()
        assert (await asked).json() == {"n": 1}


async def test_what_tells_of_a_state_that_cannot_be_stored_never_leaves(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    disk.is_full = True
    app = app_of(Counter, store=disk)
    async with serving(app) as url, connect(f"{url}/agents/counter/bob") as client, page(url) as tab:
        await greeted(tab)
        await tab.send(type="rpc", id="c1", method="shout", args=[])
        await disk.asked.wait()
        disk.gate.open()
        with pytest.raises(ConnectionClosedError, match="1013"):
            await tab.until(lambda frame: False)
        assert [_told(frame) for frame in tab.frames] in ([], [{"error": "The call of shout failed."}])
        assert (await client.get("more")).status_code == 503
        disk.is_full = False
        assert await stored(app) == []
    assert "a state of Counter('ann') was not stored, and no code awaited it" in caplog.text


async def test_a_tool_that_is_a_plain_function_sets_the_state() -> None:
    class Shop(Think):
        initial_state: ClassVar[Any] = {"n": 0}
        model = ScriptedModel([*(Call("buy", {"count": 2}, id=f"b{n}") for n in range(5)), "Done."])

        @tool
        def buy(self, count: int) -> int:
            """Buy some."""
            self.update_state(lambda state: {"n": state["n"] + count})
            return int(self.state["n"])

    async with LocalServer(Everyword([Shop], store="memory:")) as server, server.client("shop") as chat:
        await chat.send("buy")
        parts = [part for part in chat.messages[-1].parts if part["type"] == "tool-buy"]
        assert max(part["output"] for part in parts) == 10 and len(parts) == 5
