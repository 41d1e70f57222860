"""What one client may send in a minute: the rest is refused unread, in the words of the protocol, and told to wait."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Message

from everyword import AIChatAgent
from everyword.agents import callable_method
from everyword.server import Connecting, Limits, Principal
from everyword.server.refusals import refusal_frame
from everyword.server.uvicorn_websocket import UvicornWebSocketProtocol
from everyword.testing import Gate, ManualClock
from tests.server.kit import chat, connect, question, scripted, serving
from tests.server.raw import RawSocket
from tests.server.sockets import Socket, socket

TRY_LATER = 1013
SENTENCE = re.compile(r"unable to accept the data; you sent too much within a minute\. Wait \d+ s\.")


async def whoever(connecting: Connecting) -> Principal:
    return Principal(connecting.request.query_params.get("who", "ann"))


class Chat(AIChatAgent):
    """Counts, and keeps a state."""

    initial_state = 0
    heard = 0

    async def on_chat_message(self, turn: Any) -> Any:
        yield "x"

    async def on_message(self, connection: Any, message: Any) -> None:
        type(self).heard += 1

    async def on_request(self, request: Request) -> Any:
        return PlainTextResponse(str(len(await request.body())))

    @callable_method
    def add(self, amount: int) -> int:
        return amount + 1


async def refused(client: Socket, **frame: Any) -> dict[str, Any]:
    await client.send(**frame)
    return await client.until(lambda told: SENTENCE.search(json.dumps(told)) is not None)


async def test_states_calls_and_questions_beyond_the_limit_are_refused_as_such() -> None:
    app = chat(Chat, limits=Limits(frames_per_minute=3))
    app.clock = clock = ManualClock()
    async with serving(app) as url, socket(url) as client:
        await client.greeted()
        for value in (1, 2, 3):
            await client.send(type="cf_agent_state", state=value)
        assert (await refused(client, type="cf_agent_state", state=4))["type"] == "cf_agent_state_error"
        client.frames.clear()
        told = await refused(client, type="rpc", id="c1", method="add", args=[1])
        assert (told["type"], told["id"], told["success"]) == ("rpc", "c1", False)
        client.frames.clear()
        clock.advance(60)
        await client.send(type="rpc", id="c2", method="add", args=[1])
        assert (await client.until(lambda frame: frame.get("id") == "c2"))["result"] == 2
        loaded = (await app.start()).directory.loaded()
        assert [each.reconciler.view.state_value for each in loaded] == [b"3"], "what was refused is not stored"
        await client.ask("r1")
        ended = await client.ended("r1")
        assert (ended["error"], SENTENCE.fullmatch(ended["body"]) is not None) == (True, True)


async def test_a_client_that_goes_on_far_beyond_the_limit_is_closed() -> None:
    app = chat(Chat, limits=Limits(frames_per_minute=5))
    app.clock = ManualClock()
    async with serving(app) as url, socket(url) as client:
        await client.greeted()
        for value in range(20):
            await client.send(type="cf_agent_state", state=value)
        code, reason = await client.closed_after_frames()
        assert (code, SENTENCE.fullmatch(reason) is not None) == (TRY_LATER, True)
        errors = [frame for frame in client.frames if frame["type"] == "cf_agent_state_error"]
        assert len(errors) == 4, "one minute's worth is refused with a sentence each"
        async with socket(url) as again:
            await again.greeted()
            await again.send(type="cf_agent_state", state=99)
            assert (await again.closed_after_frames())[0] == TRY_LATER, "a new connection does not start anew"


async def test_a_refusal_does_not_come_in_the_middle_of_a_message_that_is_sent_in_fragments() -> None:
    gate = Gate()
    app = chat(scripted([*["x" * 100_000] * 100, gate]), limits=Limits(frames_per_minute=2))
    app.clock = ManualClock()
    async with serving(app, ws=UvicornWebSocketProtocol, ws_per_message_deflate=False) as url:
        async with connect(f"{url}/agents/chat/ann") as client, RawSocket.connected(url) as slow:
            headers = {"prefer": "respond-async", "idempotency-key": "r1"}
            await client.post("chat", json=question(), headers=headers)
            await gate.reached.wait()
            app.clock.advance(60)
            await slow.upgrade()
            await slow.until(type="cf_agent_identity")
            slow.say(type="cf_agent_stream_resume_ack", id="r1")
            opcode, data, is_last = await slow.next()
            while is_last:
                opcode, data, is_last = await slow.next()
            assert (opcode, is_last) == (1, False), "the replay is larger than one write"
            for call in ("c1", "c2"):
                slow.say(type="rpc", id=call, method="add", args=[1])
            while not is_last:
                opcode, data, is_last = await slow.next()
                assert opcode in (0, 9), data
            assert SENTENCE.fullmatch((await slow.until(id="c2"))["error"])
        gate.open()


async def test_a_frame_that_has_no_refusal_closes_its_socket() -> None:
    """So that a client is not left with a stop or an answer that it believes was taken."""
    app = chat(Chat, limits=Limits(frames_per_minute=1))
    app.clock = ManualClock()
    async with serving(app) as url, socket(url) as client:
        await client.greeted()
        await client.send(type="rpc", id="c1", method="add", args=[1])
        await client.until(lambda frame: frame.get("id") == "c1")
        await client.send(type="cf_agent_chat_clear")
        assert (await client.closed_after_frames())[0] == TRY_LATER


async def test_bytes_count_over_all_sockets_and_bodies_of_a_principal() -> None:
    app = chat(Chat, authorize=whoever, limits=Limits(bytes_per_minute=10_000))
    app.clock = clock = ManualClock()
    async with serving(app) as url, socket(url, "?who=ann") as one, socket(url, "?who=ann") as two:
        await one.greeted()
        await one.send(type="cf_agent_state", state="x" * 6000)
        await two.greeted()
        await two.send(type="cf_agent_state", state="y" * 6000)
        await one.until(lambda frame: frame.get("state") == "y" * 6000)
        assert (await refused(one, type="cf_agent_state", state=""))["type"] == "cf_agent_state_error"
        async with connect(f"{url}/agents/chat/ann") as client:
            for path in ("chat", "own"):
                answer = await client.post(path, params={"who": "ann"}, json=question())
                assert (answer.status_code, SENTENCE.search(answer.text) is not None) == (429, True)
                assert int(answer.headers["retry-after"]) > 0
            assert (await client.get("get-messages", params={"who": "ann"})).status_code == 200, "reading is free"
            assert (await client.post("own", params={"who": "bob"}, json=question())).status_code == 200
            clock.advance(60)
            assert (await client.post("own", params={"who": "ann"}, json=question())).status_code == 200


async def test_the_local_principal_has_limits_too(tmp_path: Path) -> None:
    """What one client wrote without any was 317 MB in eleven seconds."""
    app = chat(Chat, store=str(tmp_path / "chats.db"), limits=Limits(bytes_per_minute=1_000_000))
    app.clock = ManualClock()
    async with serving(app) as url, socket(url) as client:
        await client.greeted()
        for n in range(40):
            await client.send(type="cf_agent_state", state=f"{n}" + "x" * 100_000)
        assert (await client.closed_after_frames())[0] == TRY_LATER
        store = (await app.start()).directory.store
        stored = sum(len(each.body) for each in await store.read("chat/ann", 0))  # type: ignore[arg-type]
        assert 900_000 < stored < 1_200_000


async def test_a_body_that_goes_on_and_on_is_cut_off() -> None:
    app = chat(Chat, limits=Limits(bytes_per_minute=100_000))
    app.clock = ManualClock()
    taken = 0

    async def pieces() -> Any:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield b"x" * 10_000

    async with serving(app) as url, connect(f"{url}/agents/chat/ann") as client:
        answer = await client.post("own", content=pieces())
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "61")
        assert (await client.post("own", content=b"x")).status_code == 429


async def test_a_body_that_is_read_with_its_answer_is_cut_off_as_well() -> None:
    """An agent may answer with an application of its own, which reads the request by itself."""
    heard: list[Message] = []

    async def reader(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] == "http.request" and message.get("more_body"):
            heard.append(message)
        heard.append(message)
        await PlainTextResponse(message["type"])(scope, receive, send)

    async def on_request(self: Any, request: Request) -> Any:
        return reader

    app = chat(scripted(["x"], on_request=on_request), limits=Limits(bytes_per_minute=10_000))
    app.clock = ManualClock()

    async def pieces() -> Any:
        for _ in range(1000):
            yield b"x" * 10_000

    async with serving(app) as url, connect(f"{url}/agents/chat/ann") as client:
        answer = await client.post("own", content=pieces())
        assert (answer.status_code, answer.text) == (200, "http.disconnect")
        assert sum(len(each.get("body", b"")) for each in heard) < 1_000_000


LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        ({"type": "cf_agent_state", "state": LONG}, ("cf_agent_state_error", None)),
        ({"state": LONG, "type": "cf_agent_state"}, ("cf_agent_state_error", None)),
        ({"type": "rpc", "id": "c1", "method": "add", "args": [LONG]}, ("rpc", "c1")),
        ({"args": [LONG], "method": "add", "id": "c1", "type": "rpc"}, ("rpc", "c1")),
        (
            {"init": {"method": "POST", "body": LONG}, "id": "r1", "type": "cf_agent_use_chat_request"},
            ("cf_agent_use_chat_response", "r1"),
        ),
        ({"type": "cf_agent_use_chat_request", "id": 7, "init": {"body": LONG}}, None),
        ({"type": "cf_agent_chat_messages", "messages": [LONG]}, None),
        ({"type": "cf_agent_use_chat_request", "id": "r1"}, ("cf_agent_use_chat_response", "r1")),
        ({"type": "cf_agent_use_chat_request"}, None),
        ("anything", None),
        (LONG, None),
    ],
)
def test_a_frame_is_refused_by_what_its_ends_say(frame: Any, told: tuple[str, str | None] | None) -> None:
    answer = refusal_frame(json.dumps(frame), "Wait.")
    found = None if answer is None else json.loads(answer)
    assert (None if found is None else (found["type"], found.get("id"))) == told
    assert found is None or "Wait." in (found.get("error"), found.get("body"))
