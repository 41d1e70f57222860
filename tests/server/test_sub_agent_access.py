"""Sub-agents over HTTP and sockets: reached only below their parent, if every agent on the path allows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.responses import PlainTextResponse

from everyword import Agent, AIChatAgent, Connecting, Everyword, Principal, Reject
from everyword import callable as callable_
from everyword.agents.sub_agent_classes import SubAgentAddress
from tests.server.kit import chat, connect, question, serving
from tests.server.sockets import Socket, socket


class Leaf(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield f"I am {self.name}"

    @callable_
    async def shout(self, text: str) -> None:
        self.broadcast({"type": "shout", "text": text})


class Hidden(Agent):
    """Refuses access to its sub-agents."""


class Chat(AIChatAgent):
    """Lets people through by the name of the child, and remembers who asked for what."""

    sub_agent_classes = (Leaf, Hidden)
    asked: list[tuple[str, str, str]] = []  # noqa: RUF012 - one list for all instances, emptied by `app`

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield "I am the parent"

    async def on_before_sub_agent(self, request: Any, child: SubAgentAddress) -> Any:
        self.asked.append((self.name, child.kind, child.name))
        match child.name:
            case "closed":
                return False
            case "teapot":
                return PlainTextResponse("short and stout", 418)
            case "reject":
                return Reject("not for you", 402)
            case "broken":
                raise RuntimeError("a reason that stays here")
            case "truthy":
                return "yes"
            case _:
                return True


def app(**options: Any) -> Everyword:
    Chat.asked.clear()
    return chat(Chat, **options)


async def heard(socket: Socket, kind: str) -> list[dict[str, Any]]:
    await socket.settled()
    return [frame for frame in socket.frames if frame["type"] == kind]


async def test_a_sub_agent_chats_under_its_own_name_and_its_parent_hears_nothing() -> None:
    """P-52. Trap 209."""
    async with serving(app()) as url, socket(url) as parent, socket(url, name="ann/sub/leaf/l%2F%C3%B6") as leaf:
        greeting = await leaf.greeted()
        assert (greeting["agent"], greeting["name"]) == ("leaf", "l/ö")
        await leaf.ask("r1")
        assert (await leaf.ended("r1"))["outcome"] == "completed"
        await leaf.send(type="rpc", id="c", method="shout", args=["hey"])
        assert (await leaf.until(lambda frame: frame["type"] == "shout"))["text"] == "hey"
        assert [frame["agent"] for frame in await heard(parent, "cf_agent_identity")] == ["chat"]
        assert await heard(parent, "shout") == []
        assert await heard(parent, "cf_agent_use_chat_response") == []
        async with connect(f"{url}/agents/chat/ann") as client:
            stored = (await client.get("sub/leaf/l%2F%C3%B6/get-messages")).json()
            assert [message["parts"][-1]["text"] for message in stored] == ["hi", "I am l/ö"]
            assert (await client.get("get-messages")).json() == []


async def test_http_turns_of_a_sub_agent_are_its_own() -> None:
    async with serving(app()) as url, connect(f"{url}/agents/chat/ann/sub/leaf/x") as client:
        answer = await client.post("chat", json=question())
        assert (answer.status_code, "I am x" in answer.text) == (200, True)


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("sub/leaf/closed", 403, "refuses clients of its sub-agents"),
        ("sub/leaf/truthy", 500, "could not check"),
        ("sub/leaf/teapot", 418, "short and stout"),
        ("sub/leaf/reject", 402, "not for you"),
        ("sub/leaf/broken", 500, "could not check"),
        ("sub/nobody/x", 404, "'nobody'"),
        ("sub/hidden/h/sub/leaf/x", 404, "'leaf'"),
        ("sub/hidden/h/sub/chat/x", 403, "refuses clients of its sub-agents"),
        ("sub/leaf/closed/sub/leaf/x", 403, "refuses clients of its sub-agents"),
        ("sub/leaf/a%00b", 400, "NUL"),
    ],
)
async def test_a_refused_client_gets_the_same_verdict_over_http_and_the_socket(
    path: str, status: int, said: str
) -> None:
    """P-51; Trap 217: an agent that does not exist is not found, and the parent does not answer for it."""
    async with serving(app()) as url:
        async with connect(f"{url}/agents/chat/ann") as client:
            answer = await client.get(f"{path}/get-messages")
            assert (answer.status_code, said in answer.text, "a reason" in answer.text) == (status, True, False)
        async with socket(url, name=f"ann/{path}") as refused:
            code, reason = await refused.closed()
            if status == 400:
                assert code == 1008
            elif status < 500:
                assert (code, reason) == (4000 + status, f"Sub-agent connection rejected ({status})")
            else:
                assert code == 1011


async def test_no_client_reaches_a_sub_agent_unless_its_parent_allows_it() -> None:
    class Chat(AIChatAgent):
        sub_agent_classes = (Leaf,)

    async with serving(chat(Chat)) as url, socket(url, name="ann/sub/leaf/x") as refused:
        assert (await refused.closed())[0] == 4403


async def test_every_agent_on_the_path_is_asked_from_the_root_down() -> None:
    async with serving(app()) as url, socket(url, name="ann/sub/chat/mid/sub/leaf/l") as leaf:
        assert (await leaf.greeted())["name"] == "l"
    assert Chat.asked == [("ann", "chat", "mid"), ("mid", "leaf", "l")]


async def test_authorize_is_asked_first_and_about_the_root_with_the_path_in_sight() -> None:
    asked: list[tuple[str, str, Any]] = []

    async def authorize(connecting: Connecting) -> Principal | None:
        asked.append((connecting.agent.__name__, connecting.name, tuple(connecting.path)))
        return Principal("ann") if "token" in connecting.request.query_params else None

    async with serving(app(authorize=authorize)) as url:
        async with socket(url, name="ann/sub/leaf/x") as refused:
            assert (await refused.closed())[0] == 1008
        assert (asked, Chat.asked) == ([("Chat", "ann", (("leaf", "x"),))], [])
        async with socket(url, "?token=1", name="ann/sub/leaf/x") as leaf:
            assert (await leaf.greeted())["name"] == "x"
        assert Chat.asked == [("ann", "leaf", "x")]


async def test_a_sub_agent_is_not_served_at_the_root_and_no_root_is_named_like_one() -> None:
    async with serving(app()) as url, connect(f"{url}/agents") as client:
        assert (await client.get("leaf/x/get-messages")).status_code == 404
        answer = await client.get("chat/ann%2Fsub%2Fleaf%2Fx/get-messages")
        assert (answer.status_code, "sub-agents" in answer.text) == (400, True)


async def test_a_path_of_the_agents_own_may_have_the_word_in_it_elsewhere() -> None:
    class Chat(AIChatAgent):
        async def on_request(self, request: Any) -> Any:
            return PlainTextResponse("mine")

    async with serving(chat(Chat)) as url, connect(f"{url}/agents/chat/ann") as client:
        for path in ("files/sub/leaf/x", "sub", "sub/leaf"):
            assert (await client.get(path)).text == "mine"
