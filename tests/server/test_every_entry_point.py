"""Every way to an agent, tried by callers that may not come in: none of them reaches it, and none loads it."""

from __future__ import annotations

import json
import logging
import re
from contextlib import suppress
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse
from websockets.exceptions import ConnectionClosed

from everyword import AIChatAgent, Connecting, Everyword, Principal, Reject
from everyword import callable as callable_
from everyword.agents import Agent
from everyword.cli.playground import playground
from everyword.observe import Metrics
from everyword.server import health
from everyword.server import http as http_doors
from everyword.server import playground as playground_doors
from everyword.server.attachment_resources import ONE
from everyword.wire import parse as socket_doors
from tests.architecture.tree import ROOT
from tests.server.kit import chat, connect, question, serving, user
from tests.server.sockets import socket

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")

RESOURCES = {
    ("get-messages", "GET"),
    ("get-messages", "HEAD"),
    ("chat", "POST"),
    ("chat/stream", "GET"),
    ("chat/stop", "POST"),
    ("events", "GET"),
    ("attachments", "POST"),
    ("presence", "GET"),
}
"""What an agent has by itself, over HTTP."""

ATTACHMENT = {(f"attachments/{'0' * 64}", "GET"), (f"attachments/{'0' * 64}", "HEAD")}

SDK_PATHS = {("chat/some-id/stream", "GET"), ("chat/some-id/stop", "POST")}
OWN_PATHS = {(path, method) for path in ("", "own", "own/path", "sub", "sub/leaf") for method in METHODS}
"""What `on_request` of an agent answers."""

PLAYGROUND = {"agents", "log"}

ABOUT_THE_SERVER = {"/healthz", "/metrics"}
"""Pages that use no agent, and are open to clients that `authorize` refuses."""

FRAMES: dict[str, dict[str, Any]] = {
    "cf_agent_use_chat_request": {
        "id": "r1",
        "init": {"method": "POST", "body": json.dumps({"messages": [user("u1")]})},
    },
    "cf_agent_chat_request_cancel": {"id": "r1"},
    "cf_agent_chat_clear": {},
    "cf_agent_chat_messages": {"messages": [user("u1")]},
    "cf_agent_stream_resume_request": {"probeId": "p"},
    "cf_agent_stream_resume_ack": {"id": "r1"},
    "cf_agent_tool_result": {"toolCallId": "k", "output": 1, "autoContinue": True},
    "cf_agent_tool_approval": {"toolCallId": "k", "approved": True},
    "cf_agent_state": {"state": {"a": 1}},
    "rpc": {"id": "c1", "method": "touch", "args": []},
    "of-its-own": {"text": "hello"},
}

WHERE_PATHS_ARE_MATCHED = {
    "server/agent_urls.py": "kind, name, sub-agents and resource",
    "server/admission.py": "the agents",
    "server/attachment_resources.py": "signed links of attachments",
    "server/app.py": "the resource of an admitted request",
    "server/http.py": "the resources of an agent",
    "server/http_caller.py": "nothing: it carries the resource of an admitted request",
    "server/approval_resources.py": "nothing: its text names the resource",
    "server/conversation_resources.py": "nothing: its text names the resource",
    "server/list_requests.py": "the lists of conversations and approvals",
    "server/list_resources.py": "the parts below them, and methods",
    "server/permissions.py": "nothing: the path is written down for the audit",
    "server/share_resources.py": "where the app is mounted, for the path of a link",
    "server/shared_pages.py": "the pages of shared links",
    "server/playground.py": "the feed of the playground",
    "server/health.py": "health and metrics",
    "web/page.py": "the files of the page",
}

reached: list[str] = []


class Leaf(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> Any:
        reached.append("leaf")
        yield "never"


class Chat(AIChatAgent):
    sub_agent_classes = (Leaf,)

    async def on_start(self) -> None:
        reached.append("on_start")

    async def on_chat_message(self, turn: Any) -> Any:
        reached.append("on_chat_message")
        yield "never"

    async def on_request(self, request: Any) -> Any:
        reached.append("on_request")
        return PlainTextResponse("mine")

    async def on_connect(self, connection: Any, request: Any) -> None:
        reached.append("on_connect")

    async def on_message(self, connection: Any, message: str) -> None:
        reached.append("on_message")

    async def on_before_sub_agent(self, request: Any, child: Any) -> Any:
        reached.append("on_before_sub_agent")
        return True

    @callable_
    async def touch(self) -> None:
        reached.append("touch")


def http_paths() -> list[tuple[str, str]]:
    """Return every way to an agent over HTTP, as (method, path below `/agents/chat/ann`)."""
    own = sorted(RESOURCES | ATTACHMENT | SDK_PATHS | OWN_PATHS)
    below = [(f"sub/leaf/x/{resource}", method) for resource, method in own]
    return [(method, path) for path, method in [*own, *below]]


# -- the list is whole ------------------------------------------------------------------------------------------------


def test_the_list_of_doors_has_every_resource_of_an_agent() -> None:
    served = {(resource, method) for resource, methods in http_doors.RESOURCES.items() for method in methods}
    ours = {(ONE if path.startswith("attachments/") else path, method) for path, method in RESOURCES | ATTACHMENT}
    assert served == ours
    others = set(re.findall(r"\w+", http_doors.SDK_PATH.pattern.partition("/.+/")[2]))
    assert others == {path.rpartition("/")[2] for path, _ in SDK_PATHS}


def test_the_list_of_doors_has_every_frame_of_the_protocol() -> None:
    assert set(FRAMES) - {"of-its-own"} == set(socket_doors._READERS)


def test_the_list_of_doors_has_every_page_besides_the_agents() -> None:
    assert set(playground_doors.RESOURCES) == PLAYGROUND
    assert {health.HEALTH, Metrics().path} == ABOUT_THE_SERVER


def test_paths_are_matched_nowhere_but_where_this_list_knows() -> None:
    matching = re.compile(r"""scope\[["'](raw_)?path["']\]|raw_path|find_address\(|url\.path|\bresource\b""")
    package = ROOT / "src" / "everyword"
    found = {
        str(path.relative_to(package))
        for folder in ("server", "web")
        for path in (package / folder).rglob("*.py")
        if matching.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(WHERE_PATHS_ARE_MATCHED)


# -- every client is refused ------------------------------------------------------------------------------------------


async def _coroutine() -> Principal:
    return Principal("ann")


ODD: dict[str, Any] = {
    "False": False,
    "True": True,
    "zero": 0,
    "one": 1,
    "an empty text": "",
    "a name": "ann",
    "an empty dict": {},
    "claims": {"id": "ann", "read_only": False},
    "a list": [Principal("ann")],
    "the class": Principal,
    "not implemented": NotImplemented,
    "ellipsis": ...,
    "a response": PlainTextResponse("come in"),
    "a coroutine": _coroutine,
    "a lookalike": type("Principal", (), {"id": "ann", "claims": {}, "read_only": False})(),
}


def refusing(verdict: Any) -> Everyword:
    async def authorize(connecting: Connecting) -> Any:
        return verdict() if verdict is _coroutine else verdict

    reached.clear()
    return chat(Chat, authorize=authorize)


@pytest.mark.parametrize("verdict", [*ODD.values(), None, Reject("no", 402)], ids=[*ODD, "None", "a Reject"])
async def test_only_a_principal_comes_in_over_http(verdict: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    app = refusing(verdict)
    status = 401 if verdict is None else verdict.status if isinstance(verdict, Reject) else 500
    transport = httpx.ASGITransport(app)
    async with app, httpx.AsyncClient(transport=transport, base_url="http://localhost/agents/chat/ann/") as client:
        for method, path in http_paths():
            answer = await client.request(method, path, json=question() if method == "POST" else None)
            assert (method, path, answer.status_code) == (method, path, status)
            assert method == "HEAD" or answer.text.startswith("no" if status == 402 else "unable to accept the request")
        assert len((await app.start()).directory) == 0
    assert reached == []
    told = [record.getMessage() for record in caplog.records]
    assert (status == 500) == any("`authorize` returned" in line and "Return a Principal" in line for line in told)


@pytest.mark.parametrize("verdict", [*ODD.values(), None, Reject("no", 402)], ids=[*ODD, "None", "a Reject"])
async def test_only_a_principal_comes_in_over_a_socket(verdict: Any) -> None:
    app = refusing(verdict)
    async with serving(app) as url:
        for name in ("ann", "ann/sub/leaf/x"):
            async with socket(url, name=name) as client:
                with suppress(ConnectionClosed):
                    for kind, fields in FRAMES.items():
                        await client.send(type=kind, **fields)
                code, reason = await client.closed()
                refused_for_good = verdict is None or isinstance(verdict, Reject)
                assert code == (1008 if refused_for_good else 1013)
                assert reason.startswith("no" if isinstance(verdict, Reject) else "unable to accept the request")
        assert len((await app.start()).directory) == 0
    assert reached == []


@pytest.mark.parametrize("verdict", [*ODD.values(), None], ids=[*ODD, "None"])
async def test_only_a_principal_sees_conversations_in_the_playground(verdict: Any) -> None:
    app = refusing(verdict)
    async with serving(playground(app)) as url, connect(url) as client:
        await app.get(Chat, "ann").persist_messages([user("u1", "a secret")])
        reached.clear()
        assert (await client.get("/playground/agents")).json() == {"agents": [], "left_out": 0}
        for query in ({"agent": "chat/ann"}, {"agent": "chat/ann", "seq": "1"}, {"agent": "chat/ann", "after": "0"}):
            answer = await client.get("/playground/log", params=query)
            assert (answer.status_code, "secret" in answer.text) == (401 if verdict is None else 500, False)
    assert reached == []


async def test_the_log_says_what_authorize_returned_in_few_words(caplog: pytest.LogCaptureFixture) -> None:
    app = refusing("x" * 100_000)
    async with serving(app) as url, connect(f"{url}/agents/chat/ann") as client:
        assert "xxx" not in (await client.get("get-messages")).text
    (line,) = [record.getMessage() for record in caplog.records if "`authorize`" in record.getMessage()]
    assert "'xxxx" in line and "str" in line and "'ann'" in line
    assert len(line) < 1000


@pytest.mark.parametrize("identity", [None, "", 7, b"ann", ["ann"]])
async def test_a_principal_without_an_id_is_refused(identity: Any) -> None:
    async def authorize(connecting: Connecting) -> Principal:
        return Principal(identity)

    reached.clear()
    app = chat(Chat, authorize=authorize)
    async with serving(app) as url, connect(f"{url}/agents/chat/ann") as client:
        assert (await client.post("chat", json=question())).status_code == 500
        async with socket(url) as refused:
            assert (await refused.closed())[0] == 1013
    assert reached == []


@pytest.mark.parametrize("status", [200, 101, 302, 600, "403", None, True])
async def test_a_reject_with_a_status_that_refuses_nothing_is_refused(status: Any) -> None:
    async def authorize(connecting: Connecting) -> Reject:
        return Reject("go on", status)

    reached.clear()
    async with serving(chat(Chat, authorize=authorize)) as url, connect(f"{url}/agents/chat/ann") as client:
        answer = await client.get("own")
        assert (answer.status_code, "go on" in answer.text) == (500, False)
    assert reached == []


# -- sub-agents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [None, *ODD.values(), Principal("ann")], ids=["None", *ODD, "a Principal"])
async def test_only_true_lets_a_client_through_to_a_sub_agent(verdict: Any, caplog: pytest.LogCaptureFixture) -> None:
    if verdict is True:
        verdict = 1.0

    class Chat(AIChatAgent):
        sub_agent_classes = (Leaf,)

        async def on_before_sub_agent(self, request: Any, child: Any) -> Any:
            return verdict() if verdict is _coroutine else verdict

    reached.clear()
    app = chat(Chat)
    async with serving(app) as url, connect(f"{url}/agents/chat/ann/sub/leaf/x") as client:
        if isinstance(verdict, PlainTextResponse):
            assert (await client.post("chat", json=question())).text == "come in", "its own answer, and not the leaf's"
        else:
            is_plain_no = verdict is None or verdict is False
            answer = await client.post("chat", json=question())
            assert answer.status_code == (403 if is_plain_no else 500)
            assert answer.text.startswith("unable to accept the request")
            told = [record.getMessage() for record in caplog.records if "on_before_sub_agent" in record.getMessage()]
            assert bool(told) != is_plain_no and all("True" in line for line in told)
        async with socket(url, name="ann/sub/leaf/x") as refused:
            assert (await refused.closed())[0] in (4403, 1011)
        loaded = [each.actor.agent for each in (await app.start()).directory.loaded()]
        assert loaded == ["chat/ann"]
    assert reached == []


def test_every_agent_class_refuses_sub_agents_unless_it_says_otherwise() -> None:
    assert AIChatAgent.on_before_sub_agent is Agent.on_before_sub_agent


@pytest.mark.parametrize("verdict", [None, *ODD.values(), RuntimeError("broken")], ids=["None", *ODD, "it raises"])
async def test_only_true_shows_the_metrics(verdict: Any) -> None:
    def allow(request: Any) -> Any:
        if isinstance(verdict, Exception):
            raise verdict
        return verdict() if verdict is _coroutine else verdict

    async with serving(chat(Chat, observe=[Metrics(allow=allow)])) as url, connect(url) as client:
        answer = await client.get("/metrics")
        assert answer.status_code == (200 if verdict is True else 403)
        assert ("everyword_turns" in answer.text) == (verdict is True)
