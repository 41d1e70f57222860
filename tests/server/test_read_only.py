"""What a read-only client may do: watch, and nothing else that the agent has not allowed."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from everyword import Agent, AIChatAgent, Connecting, Everyword, Principal
from everyword import callable as callable_
from everyword.errors import UsageError
from everyword.log.memory import MemoryLog
from everyword.testing import Gate
from everyword.wire import parse as socket_doors
from tests.server.kit import chat, connect, question, scripted, serving, user
from tests.server.sockets import Socket, socket
from tests.server.test_every_entry_point import FRAMES, METHODS, http_paths


async def authorize(connecting: Connecting) -> Principal:
    return Principal("ann", read_only="guest" in connecting.request.query_params)


class Chat(AIChatAgent):
    """Records what reaches its own code; everything that a client could change is in `changed`."""

    initial_state = {"count": 0}  # noqa: RUF012 - never changed in place
    changed: list[str] = []  # noqa: RUF012 - one list for all instances, emptied by `app`

    async def on_chat_message(self, turn: Any) -> Any:
        self.changed.append("on_chat_message")
        yield "hello"

    async def on_message(self, connection: Any, message: str) -> None:
        self.changed.append("on_message")

    async def on_request(self, request: Any) -> Any:
        if request.method not in ("GET", "HEAD", "OPTIONS"):
            self.changed.append(f"on_request {request.method}")
        return PlainTextResponse("mine")

    async def on_state_changed(self, state: Any, source: Any) -> None:
        self.changed.append("on_state_changed")

    async def on_before_sub_agent(self, request: Any, child: Any) -> bool:
        return True

    @callable_
    async def touch(self) -> str:
        self.changed.append("touch")
        return "touched"

    @callable_(read_only=False)
    async def poke(self) -> None:
        self.changed.append("poke")

    @callable_()
    async def prod(self) -> None:
        self.changed.append("prod")

    @callable_(read_only=True)
    async def look(self, far: int) -> int:
        return far + 1

    @callable_(read_only=True)
    async def gaze(self) -> Any:
        yield 1
        yield 2


def app(*agents: type[Agent], **options: Any) -> Everyword:
    Chat.changed.clear()
    return chat(*(agents or (Chat,)), authorize=authorize, **options)  # type: ignore[arg-type]


async def called(client: Socket, method: str, *args: Any) -> dict[str, Any]:
    await client.send(type="rpc", id=f"c-{method}", method=method, args=list(args))
    return await client.until(lambda frame: frame.get("id") == f"c-{method}" and frame.get("done") is not False)


async def owned(url: str, owner: Socket) -> None:
    """Make the agent by asking it something, as its owner."""
    await owner.ask("first")
    await owner.ended("first")


# -- callables --------------------------------------------------------------------------------------------------------


async def test_a_read_only_client_calls_only_what_is_marked_for_it() -> None:
    async with serving(app()) as url, socket(url) as owner:
        await owned(url, owner)
        Chat.changed.clear()
        async with socket(url, "?guest=1") as guest:
            for method in ("touch", "poke", "prod", "switch_version"):
                refused = await called(guest, method)
                assert refused["success"] is False
                assert refused["error"] == f"unable to call {method}; this connection is read-only"
            assert (await called(guest, "look", 1))["result"] == 2
            assert (await called(guest, "gaze"))["success"] is True
            assert (await called(guest, "get_versions"))["result"] == []
            assert (await called(guest, "nothing"))["error"] == "Method nothing does not exist"
            assert (await called(guest, "on_message"))["error"] == "Method on_message is not callable"
        assert Chat.changed == []
        assert (await called(owner, "touch"))["result"] == "touched"
        assert (await called(owner, "look", 2))["result"] == 3


def test_a_mark_that_is_given_no_method_is_a_mistake_of_the_developer() -> None:
    with pytest.raises(UsageError, match="put @callable_method directly on a method"):
        callable_(3)  # type: ignore[call-overload]


async def test_an_override_without_the_mark_is_not_callable() -> None:
    class Bold(Chat):
        async def look(self, far: int) -> int:  # type: ignore[override]
            return 0

    async with serving(app(Bold)) as url, socket(url, kind="bold") as owner:
        assert (await called(owner, "look", 1))["error"] == "Method look is not callable"


# -- frames -----------------------------------------------------------------------------------------------------------


async def test_no_frame_of_a_read_only_client_changes_anything() -> None:
    store = MemoryLog()
    async with serving(app(store=store)) as url, socket(url) as owner:
        await owned(url, owner)
        Chat.changed.clear()
        before = len(await store.read("chat/ann", 0))  # type: ignore[arg-type]
        async with socket(url, "?guest=1") as guest:
            for kind, fields in FRAMES.items():
                await guest.send(type=kind, **fields)
            await guest.connection.send("not even JSON")
            await guest.settled()
        assert set(FRAMES) >= set(socket_doors._READERS)
        assert Chat.changed == []
        assert len(await store.read("chat/ann", 0)) == before  # type: ignore[arg-type]


async def test_a_read_only_client_is_told_that_a_question_or_a_state_is_refused() -> None:
    async with serving(app()) as url, socket(url) as owner:
        await owned(url, owner)
        async with socket(url, "?guest=1") as guest:
            await guest.ask("r1")
            assert "only watch" in (await guest.ended("r1"))["body"]
            await guest.send(type="cf_agent_state", state={"count": 9})
            refused = await guest.until(lambda frame: frame["type"] == "cf_agent_state_error")
            assert refused["error"] == "Connection is readonly"


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "cf_agent_chat_clear"},
        {"type": "cf_agent_chat_messages", "messages": []},
        {"type": "cf_agent_tool_result", "toolCallId": "k", "output": "forged"},
        {"type": "cf_agent_tool_approval", "toolCallId": "k", "approved": True},
    ],
    ids=lambda frame: frame["type"],
)
async def test_a_read_only_client_that_changed_its_list_is_shown_the_conversation(frame: dict[str, Any]) -> None:
    """P-34: the stock client shows a change before it was taken."""
    async with serving(app()) as url, socket(url) as owner:
        await owned(url, owner)
        async with socket(url, "?guest=1") as guest:
            await guest.greeted()
            await guest.settled()
            guest.frames.clear()
            await guest.send(**frame)
            shown = await guest.until(lambda each: each["type"] == "cf_agent_chat_messages")
            assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]


async def test_a_read_only_client_stops_nothing() -> None:
    gate = Gate()
    async with serving(app(scripted(["a", gate, "b"]))) as url, socket(url) as owner:
        await owner.ask("r1")
        await gate.reached.wait()
        async with socket(url, "?guest=1") as guest:
            await guest.greeted()
            await guest.send(type="cf_agent_chat_request_cancel", id="r1")
            await guest.settled()
            gate.open()
            assert (await owner.ended("r1"))["outcome"] == "completed"


@pytest.mark.parametrize("may_send", [False, True])
async def test_frames_of_its_own_reach_the_agent_only_where_the_agent_allows_it(may_send: bool) -> None:
    class Door(Agent):
        read_only_may_send = may_send
        heard: list[str] = []  # noqa: RUF012 - one list for all instances

        async def on_message(self, connection: Any, message: str) -> None:
            self.heard.append(message)
            connection.send({"type": "heard"})

        @callable_
        async def open(self) -> None:
            self.heard.append("opened")

    async with serving(app(Door)) as url, socket(url, kind="door") as owner:
        await owner.connection.send("of the owner")
        await owner.until(lambda frame: frame["type"] == "heard")
        async with socket(url, "?guest=1", kind="door") as guest:
            for text in ("knock", '{"type":"cf_agent_chat_clear"}', '{"type":"rsm","of":"its own"}'):
                await guest.connection.send(text)
            await guest.settled()
            assert (await called(guest, "open"))["success"] is False
            await owner.settled()
        assert Door.heard[0] == "of the owner"
        assert len(Door.heard) == (4 if may_send else 1)


# -- HTTP -------------------------------------------------------------------------------------------------------------


async def test_a_read_only_request_changes_nothing_at_any_path() -> None:
    store = MemoryLog()
    async with serving(app(store=store)) as url, socket(url) as owner:
        await owned(url, owner)
        async with socket(url, name="ann/sub/chat/x") as below:
            await owned(url, below)
        Chat.changed.clear()
        agents = sorted(await store.agents())
        heads = [len(await store.read(agent, 0)) for agent in agents]  # type: ignore[arg-type]
        async with connect(f"{url}/agents/chat/ann", params={"guest": "1"}) as client:
            for method, path in http_paths():
                path = path.replace("sub/leaf/x", "sub/chat/x")
                if path.endswith(("events",)):
                    continue  # an open stream; see below
                answer = await client.request(method, path, json=question() if method == "POST" else None)
                if method not in ("GET", "HEAD", "OPTIONS"):
                    assert (path, answer.status_code, "watch" in answer.text) == (path, 403, True)
                else:
                    allowed = (404,) if "attachments/" in path else (200, 204)  # there is none
                    assert (path, answer.status_code) in {(path, status) for status in allowed}
            async with client.stream("GET", "events") as events:
                assert events.status_code == 200
        assert Chat.changed == []
        assert (sorted(await store.agents()), heads) == (
            agents,
            [len(await store.read(agent, 0)) for agent in agents],  # type: ignore[arg-type]
        )


async def test_the_owner_uses_every_method_of_the_agents_own_paths() -> None:
    async with serving(app()) as url, connect(f"{url}/agents/chat/ann") as client:
        for method in METHODS:
            assert (await client.request(method, "own")).status_code == 200
    assert Chat.changed == [f"on_request {method}" for method in ("POST", "PUT", "PATCH", "DELETE")]


# -- agents that do not exist -----------------------------------------------------------------------------------------


async def test_a_read_only_client_makes_and_loads_no_agent() -> None:
    store = MemoryLog()
    guarded = app(store=store)
    async with serving(guarded) as url, connect(f"{url}/agents/chat/nobody", params={"guest": "1"}) as client:
        for method, path in http_paths():
            path = path.replace("sub/leaf/x", "sub/chat/x")
            answer = await client.request(method, path, json=question() if method == "POST" else None)
            expected = {403, 404}
            if path == "get-messages":
                assert method == "HEAD" or answer.json() == []
                expected = {200}
            elif path in ("chat/stream", "chat/some-id/stream"):
                expected = {204}
            assert (path, method, answer.status_code) in {(path, method, status) for status in expected}
        for name in ("nobody", "nobody/sub/chat/x"):
            async with socket(url, "?guest=1", name=name) as guest:
                code, reason = await guest.closed()
                assert (code, "does not exist yet" in reason) == (1013, True)
        assert len((await guarded.start()).directory) == 0
        assert await store.agents() == []


async def test_a_read_only_client_watches_an_agent_that_is_in_use() -> None:
    async with serving(app()) as url, socket(url) as owner:
        await owner.greeted()
        async with socket(url, "?guest=1") as guest:
            await guest.greeted()
            await owner.ask("r1")
            assert (await guest.ended("r1"))["outcome"] == "completed"


async def test_a_read_only_client_watches_what_is_stored() -> None:
    guarded = app()
    async with serving(guarded) as url:
        await guarded.get(Chat, "ann").persist_messages([user("u1")])
        async with socket(url, "?guest=1") as guest:
            assert (await guest.greeted())["name"] == "ann"
