"""Agents that do not chat, over real sockets: state, callables, hooks, connections, requests of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel
from starlette.responses import PlainTextResponse
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket

from everyword import Agent, CallResult, ChatError, Everyword, callable, get_current_agent
from everyword.agents.connections import Connection
from everyword.client import AgentClient
from everyword.errors import AgentStopped, MailboxFull
from everyword.server.connection_hooks import MOST_AT_ONCE
from tests.server.kit import PATIENCE, connect, serving

STATE, ERROR = "cf_agent_state", "cf_agent_state_error"


class Counter(Agent):
    """Counts, and remembers what it was told."""

    initial_state: ClassVar[Any] = {"count": 0}

    def __init__(self, port: Any) -> None:
        super().__init__(port)
        self.heard: list[Any] = []
        self.released = asyncio.Event()

    def validate_state_change(self, state: Any, source: Any) -> None:
        if state == "forbidden":
            raise ValueError("a secret reason")

    async def on_state_changed(self, state: Any, source: Any) -> None:
        self.heard.append((state, source if source == "server" else source.id))

    @callable
    async def add(self, amount: int) -> int:
        """Add, and return the sum."""
        await self.set_state({"count": self.state["count"] + amount})
        assert get_current_agent() is self
        return int(self.state["count"])

    @callable
    async def countdown(self, start: int) -> AsyncIterator[int]:
        for number in range(start, 0, -1):
            yield number

    @callable
    async def total(self, start: int) -> AsyncIterator[Any]:
        try:
            for number in range(start, 0, -1):
                yield number
            yield CallResult({"sum": sum(range(start + 1))})
            yield "never sent"
        finally:
            self.heard.append("closed")

    @callable
    async def wait(self) -> None:
        await self.released.wait()

    @callable
    def release(self) -> None:
        self.released.set()

    @callable
    def told(self) -> list[Any]:
        return self.heard

    @callable
    async def fail(self, kind: str) -> None:
        raise ChatError("shown") if kind == "public" else RuntimeError("secret")

    @callable
    async def shout(self, word: str) -> int:
        self.broadcast({"shouted": word}, exclude=[self.connections("quiet")[0]] if self.connections("quiet") else ())
        return len(self.connections())

    async def hidden(self) -> str:
        return "not for clients"

    def prepare_connection(self, connection: Connection, request: Any) -> None:
        connection.tags = request.query_params.getlist("tag")

    async def on_connect(self, connection: Connection, request: Any) -> None:
        connection.send({"welcome": connection.id})

    async def on_message(self, connection: Connection, message: str) -> None:
        if message == "close me":
            connection.close(4001, "as you wish")
            return
        connection.send(f"you said {message}")

    async def on_request(self, request: Any) -> Any:
        return PlainTextResponse(f"{self.name} counts {self.state['count']}")


class Page:
    """A client of the test: frames in order, and questions about them."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.frames: list[Any] = []

    async def next(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            text = await self.socket.recv()
        try:
            frame = json.loads(text)
        except ValueError:
            frame = text
        self.frames.append(frame)
        return frame

    async def until(self, fact: Any) -> Any:
        while not fact(frame := await self.next()):
            pass
        return frame

    async def send(self, **frame: Any) -> None:
        await self.socket.send(json.dumps(frame))

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method and return all of its frames."""
        call_id = f"c{len(self.frames)}"
        await self.send(type="rpc", id=call_id, method=method, args=list(args))
        replies = []
        while True:
            frame = await self.until(lambda f: isinstance(f, dict) and f.get("id") == call_id)
            replies.append(frame)
            if not frame["success"] or frame.get("done", True):
                return replies


@asynccontextmanager
async def page(url: str, name: str = "ann", query: str = "", kind: str = "counter") -> AsyncIterator[Page]:
    address = f"{url.replace('http', 'ws')}/agents/{kind}/{name}?_pk=me{query}"
    async with open_socket(address, open_timeout=PATIENCE) as socket:
        yield Page(socket)


def app_of(*agents: type[Agent], **options: Any) -> Everyword:
    app = Everyword(agents, **{"store": "memory:", **options})
    app.grace = 0.0
    return app


async def test_a_page_gets_identity_then_the_state_once_then_the_agents_own_frame() -> None:
    async with serving(app_of(Counter)) as url, page(url) as tab:
        frames = [await tab.next() for _ in range(4)]
    assert [frame.get("type") for frame in frames] == ["cf_agent_identity", STATE, "cf_agent_mcp_servers", None]
    assert frames[0]["stateFollows"] is True and frames[1]["state"] == {"count": 0}
    assert frames[3] == {"welcome": "me"}


async def test_a_state_goes_to_all_clients_except_its_sender_and_to_the_hook() -> None:
    async with serving(app_of(Counter)) as url, page(url) as one, page(url) as other:
        await one.until(lambda f: f == {"welcome": "me"})
        await other.until(lambda f: f == {"welcome": "me"})
        await one.send(type=STATE, state={"count": 7})
        assert (await other.until(lambda f: f.get("type") == STATE))["state"] == {"count": 7}
        (reply,) = await one.call("told")
        assert reply["result"] == [[{"count": 7}, "me"]]
        assert STATE not in [frame.get("type") for frame in one.frames[4:] if isinstance(frame, dict)]


@pytest.mark.parametrize("state", [None, 0, False, "", [], {"a": [1, {"b": None}]}])
async def test_any_json_is_a_state(state: Any) -> None:
    async with serving(app_of(Counter)) as url, page(url) as one, page(url) as other:
        await other.until(lambda f: f == {"welcome": "me"})
        await one.send(type=STATE, state=state)
        assert (await other.until(lambda f: f.get("type") == STATE))["state"] == state
        async with page(url) as late:
            assert (await late.until(lambda f: f.get("type") == STATE))["state"] == state


async def test_a_refused_state_is_an_error_without_the_reason_and_changes_nothing() -> None:
    async with serving(app_of(Counter)) as url, page(url) as tab:
        await tab.send(type=STATE, state="forbidden")
        assert await tab.until(lambda f: f.get("type") == ERROR) == {"type": ERROR, "error": "State update rejected"}
        assert (await tab.call("add", 1))[-1]["result"] == 1


async def test_a_result_never_overtakes_the_state_that_it_caused() -> None:
    async with serving(app_of(Counter)) as url, page(url) as tab:
        await tab.until(lambda f: f == {"welcome": "me"})
        for total in range(1, 20):
            (reply,) = await tab.call("add", 1)
            assert reply["result"] == total
            states = [frame["state"]["count"] for frame in tab.frames if frame.get("type") == STATE]
            assert states[-1] == total, "the state came first"


async def test_arguments_are_checked_and_the_error_says_what_is_wrong() -> None:
    async with serving(app_of(Counter)) as url, page(url) as tab:
        errors = [(await tab.call("add", *args))[-1]["error"] for args in (["x"], [], [1, 2])]
        assert "amount: Input should be a valid integer" in errors[0]
        assert "missing a required argument" in errors[1] and "too many positional arguments" in errors[2]


@pytest.mark.parametrize(
    ("method", "args", "text"),
    [
        ("nobody", [], "Method nobody does not exist"),
        ("hidden", [], "Method hidden is not callable"),
        ("set_state", [1], "Method set_state is not callable"),
        ("_runtime", [], "Method _runtime does not exist"),
        ("fail", ["public"], "shown"),
        ("fail", ["private"], "The call of fail failed."),
    ],
)
async def test_what_cannot_be_called_or_fails_is_an_error_frame(method: str, args: list[Any], text: str) -> None:
    async with serving(app_of(Counter)) as url, page(url) as tab:
        assert (await tab.call(method, *args))[-1] == {
            "type": "rpc",
            "id": tab.frames[-1]["id"],
            "success": False,
            "error": text,
        }


async def test_a_client_cannot_have_more_calls_running_than_a_connection_may() -> None:
    async with serving(app_of(Counter)) as url, page(url) as tab:
        await tab.until(lambda f: f == {"welcome": "me"})
        for number in range(MOST_AT_ONCE + 1):
            await tab.send(type="rpc", id=f"w{number}", method="wait", args=[])
        refused = await tab.until(lambda f: f.get("type") == "rpc")
        assert refused["id"] == f"w{MOST_AT_ONCE}" and "too many calls" in refused["error"]
        await tab.send(type=STATE, state={"count": 1})
        async with page(url) as other:
            assert (await other.call("release"))[-1]["success"]
        await tab.until(lambda f: f.get("id") == "w0" and f["success"])


async def test_a_slow_hook_delays_nothing_else() -> None:
    class Slow(Counter):
        async def on_state_changed(self, state: Any, source: Any) -> None:
            await asyncio.Event().wait()

    async with serving(app_of(Slow)) as url, page(url, kind="slow") as tab:
        await tab.send(type=STATE, state={"count": 4})
        assert (await tab.call("told"))[-1]["success"]


async def test_an_async_generator_streams_its_values() -> None:
    async with serving(app_of(Counter)) as url, page(url) as tab:
        replies = await tab.call("countdown", 3)
        assert [(reply.get("result"), reply["done"]) for reply in replies] == [
            (3, False),
            (2, False),
            (1, False),
            (None, True),
        ]


async def test_a_stream_of_values_ends_with_its_result() -> None:
    async with serving(app_of(Counter)) as url, page(url) as tab:
        replies = await tab.call("total", 2)
        assert [(reply["result"], reply["done"]) for reply in replies] == [
            (2, False),
            (1, False),
            ({"sum": 3}, True),
        ]
        assert (await tab.call("told"))[-1]["result"] == ["closed"], "nothing of it runs on"


async def test_the_python_client_is_given_the_result_of_a_stream() -> None:
    async with serving(app_of(Counter)) as url, AgentClient(url, "counter", "ann") as client:
        assert [value async for value in client.stream("total", 2)] == [2, 1, {"sum": 3}]
        assert await client.call("total", 2) == {"sum": 3}


async def test_a_broadcast_reaches_all_but_the_excluded_connections() -> None:
    async with (
        serving(app_of(Counter)) as url,
        page(url) as one,
        page(url) as two,
        page(url, query="&tag=quiet") as three,
    ):
        for tab in (one, two, three):
            await tab.until(lambda f: f == {"welcome": "me"})
        (reply,) = await one.call("shout", "hey")
        assert reply["result"] == 3
        await two.until(lambda f: f == {"shouted": "hey"})
        await three.call("told")
        assert {"shouted": "hey"} not in three.frames


async def test_other_frames_are_the_agents_own_and_it_may_close_the_socket() -> None:
    async with serving(app_of(Counter)) as url, page(url) as tab:
        await tab.socket.send("hello")
        assert await tab.until(lambda f: isinstance(f, str)) == "you said hello"
        await tab.send(type="cf_agent_chat_clear")
        assert "cf_agent_chat_clear" in await tab.until(lambda f: isinstance(f, str)), "it does not chat"
        await tab.socket.send("close me")
        async with asyncio.timeout(PATIENCE):
            await tab.socket.wait_closed()
        assert (tab.socket.close_code, tab.socket.close_reason) == (4001, "as you wish")


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (AgentStopped("unable to queue a job; the server is stopping. Reconnect in a moment."), 503),
        (MailboxFull("unable to take the command; too many wait"), 503),
        (RuntimeError("a bug"), 500),
    ],
    ids=lambda given: type(given).__name__,
)
async def test_a_request_that_a_shutdown_cuts_off_may_be_sent_again(
    raised: Exception, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    class Cut(Agent):
        async def on_request(self, request: Any) -> Any:
            raise raised  # as `queue`, `set_state` and everything else that writes does then

    async with serving(Everyword([Cut], store="memory:")) as url, connect(f"{url}/agents/cut/ann") as client:
        answer = await client.post("work")
    assert answer.status_code == status
    assert ("retry-after" in answer.headers) == (status == 503)
    assert any(record.exc_info for record in caplog.records) == (status == 500)


async def test_requests_to_other_paths_are_the_agents_own() -> None:
    async with serving(app_of(Counter)) as url, connect(f"{url}/agents/counter/ann") as client:
        answer = await client.get("/how-many")
        assert (answer.status_code, answer.text) == (200, "ann counts 0")


async def test_the_state_survives_a_restart(tmp_path: Path) -> None:
    store = str(tmp_path / "log.db")
    async with serving(app_of(Counter, store=store)) as url, page(url) as tab:
        await tab.call("add", 5)
    async with serving(app_of(Counter, store=store)) as url, page(url) as tab:
        assert (await tab.until(lambda f: f.get("type") == STATE))["state"] == {"count": 5}


class Order(BaseModel):
    item: str
    count: int = 1


class Shop(Agent):
    state_model = Order
    initial_state = Order(item="tea")

    @callable
    async def more(self) -> Order:
        await self.set_state(Order(item=self.state.item, count=self.state.count + 1))
        order: Order = self.state
        return order


async def test_a_modelled_state_is_an_object_here_and_json_there() -> None:
    async with serving(app_of(Shop)) as url, page(url, kind="shop") as tab:
        assert (await tab.until(lambda f: f.get("type") == STATE))["state"] == {"item": "tea", "count": 1}
        assert (await tab.call("more"))[-1]["result"] == {"item": "tea", "count": 2}
        await tab.send(type=STATE, state={"item": 3})
        await tab.until(lambda f: f.get("type") == ERROR)


async def test_an_agent_is_used_from_our_own_code_too() -> None:
    app = app_of(Counter)
    async with app:
        agent = app.get(Counter, "ann")
        assert await agent.get_state() == {"count": 0}
        await agent.set_state({"count": 3})
        assert await agent.get_state() == {"count": 3}
