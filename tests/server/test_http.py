"""Every route over a real socket: what is asked, what is answered, what is refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed

from everyword import AIChatAgent
from everyword.core.commands import CancelTurns, Submit
from everyword.core.state import RECENT_TURNS
from everyword.errors import ChatError
from everyword.ids import AgentId, MessageId, RequestId
from everyword.log.base import Activation
from everyword.log.memory import MemoryLog
from everyword.runtime.phase import ShutdownPhase
from everyword.server import Limits
from everyword.testing import Gate
from tests.server.kit import (
    PATIENCE,
    ask,
    bare,
    chat,
    chunks_of,
    connect,
    ending,
    folded,
    question,
    reading,
    scripted,
    serving,
    talking,
    text_of,
    user,
)

STREAM_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}


# -- asking -----------------------------------------------------------------------------------------------------


async def test_a_question_is_answered_as_a_stream_with_the_sdks_headers() -> None:
    async with talking(chat(scripted(["Hello ", "world"]))) as client:
        reader = await ask(client)
        assert reader.response.status_code == 200
        assert {name: reader.response.headers[name] for name in STREAM_HEADERS} == STREAM_HEADERS
        assert reader.events[-1].data == "[DONE]"
        assert text_of(folded(reader.chunks)) == "Hello world"
        stored = (await client.get("get-messages")).json()
        assert bare(stored) == bare([user("u1"), folded(reader.chunks)])
        assert stored[1] == folded(reader.chunks)


async def test_the_ids_of_a_stream_are_the_chunks_indexes_in_order() -> None:
    async with talking(chat(scripted(["a", "b", "c"]))) as client:
        reader = await ask(client)
        assert [event.id for event in reader.events[:-1]] == [str(index) for index in range(len(reader.events) - 1)]


async def test_the_applications_own_fields_become_the_turns_body() -> None:
    agent = scripted(["ok"])
    tools = [{"name": "where", "parameters": {}}]
    async with talking(chat(agent)) as client:
        await ask(client, question(temperature=0.5, user={"plan": "free"}, clientTools=tools, messageId="u1"))
    (turn,) = agent.turns  # type: ignore[attr-defined]
    assert turn.body == {"temperature": 0.5, "user": {"plan": "free"}}
    assert turn.client_tools == tools
    assert turn.trigger == "submit-message"


async def test_an_error_is_told_with_its_public_text_only() -> None:
    async with talking(chat(scripted(["Hel", ValueError("secret path")]))) as client:
        reader = await ask(client)
        assert ending(reader.events)["type"] == "error"
        assert "secret" not in reader.raw.decode()
        assert text_of(folded(reader.chunks)) == "Hel"


async def test_an_error_that_is_meant_for_clients_is_told_as_it_is() -> None:
    async with talking(chat(scripted([ChatError("Try tomorrow.")]))) as client:
        assert ending((await ask(client)).events) == {"type": "error", "errorText": "Try tomorrow."}


async def test_a_client_that_goes_away_does_not_stop_its_turn() -> None:
    gate = Gate()
    async with talking(chat(scripted(["Hel", gate, "lo"]))) as client:
        async with reading(client, "POST", "chat", json=question()) as reader:
            await reader.until(lambda event: "Hel" in event.data)
        gate.open()
        async with reading(client, "GET", "events?after=0") as log:
            await log.until(lambda event: "turn.ended" in event.data)
        stored = (await client.get("get-messages")).json()
        assert text_of(stored[-1]) == "Hello"


async def test_a_question_that_is_sent_twice_under_one_key_is_answered_once() -> None:
    agent = scripted(["Hello"])
    async with talking(chat(agent)) as client:
        first = await ask(client, idempotency_key="k1")
        again = await ask(client, idempotency_key="k1")
        assert len(agent.turns) == 1  # type: ignore[attr-defined]
        assert again.response.headers["x-everyword-request"] == "k1"
        assert folded(again.chunks) == folded(first.chunks)
        assert len((await client.get("get-messages")).json()) == 2


async def test_a_key_is_known_however_long_ago_it_was_used() -> None:
    agent = scripted(lambda turn: [turn.id])
    many = RECENT_TURNS + 2
    app = chat(agent, limits=Limits(requests_per_minute=1000))
    async with talking(app) as client:
        await ask(client, question("u0"), idempotency_key="k0")
        async with (await app.start()).directory.attach(AgentId("chat/ann")) as loaded:
            for number in range(1, many):
                await loaded.actor.ask(Submit(RequestId(f"k{number}"), MessageId(f"a{number}"), [user(f"u{number}")]))
                await loaded.actor.insist(CancelTurns(RequestId(f"k{number}")))
        await ask(client, question("last"), idempotency_key="last")
        asked = len(agent.turns)  # type: ignore[attr-defined]
        again = await ask(client, question("u0"), idempotency_key="k0")
        assert text_of(folded(again.chunks)) == "k0"
        assert len(agent.turns) == asked  # type: ignore[attr-defined]


async def test_a_question_sent_again_while_it_is_answered_joins_the_running_turn() -> None:
    gate = Gate()
    agent = scripted(["Hel", gate, "lo"])
    async with talking(chat(agent)) as client:
        async with reading(client, "POST", "chat", json=question(), headers={"idempotency-key": "k1"}) as first:
            await first.until(lambda event: "Hel" in event.data)
            async with reading(client, "POST", "chat", json=question(), headers={"idempotency-key": "k1"}) as second:
                await second.until(lambda event: "Hel" in event.data)
                gate.open()
                await second.rest()
            await first.rest()
        assert folded(first.chunks) == folded(second.chunks)
        assert len(agent.turns) == 1  # type: ignore[attr-defined]


async def test_respond_async_returns_the_acceptance() -> None:
    async with talking(chat(scripted(["Hello"]))) as client:
        headers = {"prefer": "respond-async", "idempotency-key": "k1"}
        answer = await client.post("chat", json=question(), headers=headers)
        assert (answer.status_code, answer.json()) == (202, {"request": "k1"})
        reader = await ask(client, idempotency_key="k1")
        assert text_of(folded(reader.chunks)) == "Hello"


async def test_a_new_question_is_added_to_the_conversation_and_old_ones_are_not_taken_twice() -> None:
    async with talking(chat(scripted(lambda turn: [f"answer to {turn.id}"]))) as client:
        await ask(client, question("u1"), idempotency_key="one")
        await ask(client, {"messages": [user("u1"), user("u2")]}, idempotency_key="two")
        stored = (await client.get("get-messages")).json()
        assert [text_of(message) for message in stored] == ["hi", "answer to one", "hi", "answer to two"]


# -- what cannot be used ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"messages": [', "unable to read the body; it is not JSON"),
        (b"\xff\xfe", "unable to read the body; it is not JSON"),
        (b"[1, 2]", "unable to read the body; it must be a JSON object"),
        (b"{}", 'unable to answer; the body needs "messages"'),
        (b'{"messages": [{"id": "u1", "role": "pirate", "parts": []}]}', "its role is not system, user or assistant"),
        (b'{"messages": ["hi"]}', "unable to read a message"),
    ],
)
async def test_a_body_that_cannot_be_used_is_refused_with_a_sentence(body: bytes, sentence: str) -> None:
    async with talking(chat(scripted(["x"]))) as client:
        answer = await client.post("chat", content=body)
        assert answer.status_code == 400
        assert sentence in answer.text
        assert answer.headers["content-type"].startswith("text/plain")
        assert (await client.get("get-messages")).json() == []


@pytest.mark.parametrize("is_announced", [True, False])
async def test_a_body_beyond_the_limit_is_refused_before_it_is_taken_in(is_announced: bool) -> None:
    async def pieces() -> Any:
        for _ in range(64):
            yield b" " * 1024

    body = b" " * 65536 if is_announced else pieces()
    async with talking(chat(scripted(["x"]), limits=Limits(frame=10_000))) as client:
        answer = await client.post("chat", content=body)
        assert answer.status_code == 413
        assert "larger than" in answer.text


class Payroll(AIChatAgent):
    """A kind that only this test uses."""


NOT_FOUND = ("/agents/chta/ann/get-messages", "/", "/agents", "/agents/chat", "/agents/chat/", "/elsewhere/chat/ann/x")


async def test_what_is_not_found_is_refused_without_naming_the_kinds_that_there_are() -> None:
    app = chat(scripted(["x"]), Payroll)
    async with serving(app) as url, connect(url) as client:
        for path in NOT_FOUND:
            answer = await client.get(path)
            assert (answer.status_code, answer.text.startswith("unable to find")) == (404, True)
            assert "payroll" not in answer.text and "{kind}" not in answer.text
        async with open_socket(url.replace("http", "ws") + "/agents/chta/ann", proxy=None) as sock:
            with pytest.raises(ConnectionClosed) as closed:
                await sock.recv()
            assert "payroll" not in str(closed.value)


async def test_in_development_what_is_not_found_is_refused_with_the_kinds_that_there_are() -> None:
    app = chat(scripted(["x"]), Payroll)
    app.is_development = True
    async with serving(app) as url, connect(url) as client:
        assert "'chta'" in (await client.get("/agents/chta/ann/get-messages")).text
        for path in NOT_FOUND:
            answer = await client.get(path)
            assert answer.status_code == 404
            assert "/agents/{kind}/{name}" in answer.text and "chat, payroll" in answer.text


async def test_an_unknown_resource_or_method_is_refused_with_those_that_there_are() -> None:
    async with talking(chat(scripted(["x"]))) as client:
        answer = await client.get("messages")
        assert answer.status_code == 404
        assert "get-messages" in answer.text and "chat/stream" in answer.text
        answer = await client.get("chat")
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        answer = await client.delete("get-messages")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_more_waiting_turns_than_allowed_are_refused_and_can_be_asked_again() -> None:
    gate = Gate()
    async with talking(chat(scripted([gate, "x"]), limits=Limits(queued_turns=2))) as client:
        headers = {"prefer": "respond-async"}
        accepted = [await client.post("chat", json=question(f"u{n}"), headers=headers) for n in range(3)]
        assert [answer.status_code for answer in accepted] == [202, 202, 429]
        assert "retry-after" in accepted[-1].headers
        gate.open()


async def test_more_questions_in_a_minute_than_allowed_are_refused_with_the_time_to_wait() -> None:
    async with talking(chat(scripted(["x"]), limits=Limits(requests_per_minute=2))) as client:
        for number in (1, 2):
            await ask(client, question(f"u{number}"), idempotency_key=f"k{number}")
        answer = await client.post("chat", json=question("u3"))
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= 60
        again = await ask(client, question("u1"), idempotency_key="k1")
        assert again.response.status_code == 200  # known already: nothing new is asked


async def test_more_readers_than_allowed_are_refused_and_seats_are_given_back() -> None:
    gate = Gate()
    async with talking(chat(scripted(["a", gate]), limits=Limits(sockets_per_agent=1))) as client:
        async with reading(client, "POST", "chat", json=question()) as reader:
            await reader.until(lambda event: '"a"' in event.data)
            for path in ("chat/stream", "events"):
                answer = await client.get(path)
                assert answer.status_code == 429
                assert "it has 1 readers" in answer.text
            gate.open()
            await reader.rest()
        async with reading(client, "GET", "events") as log:
            await log.until(lambda event: event.event == "snapshot")
            assert log.response.status_code == 200


@pytest.mark.parametrize("path", ["chat/stream", "events"])
async def test_of_many_readers_that_come_at_once_no_more_get_in_than_there_are_seats(path: str) -> None:
    class SlowToLoad(MemoryLog):
        async def activate(self, agent: AgentId) -> Activation:
            await gate.wait()
            return await super().activate(agent)

    gate, app = Gate(), chat(scripted(["a"]), store=SlowToLoad(), limits=Limits(sockets_per_agent=2))
    gate.open()
    async with talking(app) as client:
        await ask(client)
    gate = Gate()
    async with talking(app) as client:
        readers = [asyncio.create_task(client.get(path)) for _ in range(5)]
        waiting = set(readers)
        while len(waiting) > 2:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
            assert [each.result().status_code for each in done] == [429] * len(done) != []
        gate.open()
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)


# -- the transcript -----------------------------------------------------------------------------------------------


async def test_the_transcript_of_an_unknown_agent_is_empty_and_loads_none() -> None:
    app = chat(scripted(["x"]))
    async with talking(app) as client:
        answer = await client.get("get-messages")
        assert (answer.status_code, answer.json()) == (200, [])
        assert answer.headers["content-type"] == "application/json"
        assert (await client.get("chat/stream")).status_code == 204
        assert len((await app.start()).directory) == 0


@pytest.mark.parametrize("name", ["a b", "a/b", "ä€😀", "%2F", "a%b", "..", "get-messages", "x" * 300, "a?b#c;d=e&f"])
async def test_names_may_have_any_characters(name: str) -> None:
    agent = scripted(["ok"])
    async with serving(chat(agent)) as url, connect(url) as client:
        base = f"/agents/chat/{quote(name, safe='').replace('.', '%2E')}"
        answer = await client.post(f"{base}/chat", json=question())
        assert answer.status_code == 200
        assert len((await client.get(f"{base}/get-messages")).json()) == 2
        assert (await client.get("/agents/chat/other/get-messages")).json() == []


async def test_a_path_that_is_not_utf_8_is_refused() -> None:
    async with serving(chat(scripted(["x"]))) as url, connect(url) as client:
        answer = await client.get("/agents/chat/%ff/get-messages")
        assert answer.status_code == 400
        assert "UTF-8" in answer.text


async def test_the_transcript_shows_an_approval_that_is_asked_for_before_the_turn_ends() -> None:
    gate = Gate()
    asking = [
        {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": {"amount": 5}},
        {"type": "tool-approval-request", "toolCallId": "k1", "approvalId": "a1"},
        gate,
    ]
    async with talking(chat(scripted(asking))) as client:
        async with reading(client, "POST", "chat", json=question()) as reader:
            await reader.until(lambda event: "tool-approval-request" in event.data)
            stored = (await client.get("get-messages")).json()
            assert [message["role"] for message in stored] == ["user", "assistant"]
            assert stored[1]["parts"][-1]["state"] == "approval-requested"
            gate.open()
            await reader.rest()


async def test_an_answer_that_still_streams_is_not_in_the_transcript() -> None:
    gate = Gate()
    async with talking(chat(scripted(["Hel", gate, "lo"]))) as client:
        async with reading(client, "POST", "chat", json=question()) as reader:
            await reader.until(lambda event: "Hel" in event.data)
            assert bare((await client.get("get-messages")).json()) == [user("u1")]
            gate.open()
            await reader.rest()


async def test_an_answer_with_questions_behind_it_is_in_the_transcript_as_far_as_it_is_committed() -> None:
    first, second = Gate(), Gate()
    script = {"u1": ["Hel", first, "lo"], "u2": ["Good ", second, "bye"], "u3": ["ok"]}
    agent = scripted(lambda turn: script[turn.body["of"]])
    async with talking(chat(agent)) as client:

        async def texts(query: str = "") -> list[str]:
            return [text_of(message) for message in (await client.get(f"get-messages{query}")).json()]

        for key in ("u1", "u2", "u3"):
            body = question(key, key, of=key)
            await client.post("chat", json=body, headers={"prefer": "respond-async"})
        async with reading(client, "GET", "chat/stream") as resumed:
            await resumed.until(lambda event: "Hel" in event.data)
            assert await texts() == ["u1", "Hel", "u2", "u3"]
            assert await texts("?reserve=1") == ["u1", "Hel", "u2", "", "u3"]
            assert await texts("?reserve=1&limit=2") == ["", "u3"]
            first.open()
            await resumed.until(lambda event: "Good " in event.data)
            assert await texts() == ["u1", "Hello", "u2", "Good ", "u3"]
            second.open()
            await resumed.rest()
        assert await texts() == ["u1", "Hello", "u2", "Good bye", "u3", "ok"]
        starts = [chunk["messageId"] for chunk in resumed.chunks if chunk["type"] == "start"]
        stored = (await client.get("get-messages")).json()
        assert starts == [message["id"] for message in stored if message["role"] == "assistant"]
        assert [event.data for event in resumed.events].count("[DONE]") == 1


async def test_a_resumed_stream_goes_on_behind_a_turn_that_failed_and_one_of_a_request_does_not() -> None:
    """P-63."""
    gate = Gate()
    script = {"u1": ["Hel", gate, ChatError("no more")], "u2": ["fine"]}
    async with talking(chat(scripted(lambda turn: script[turn.body["of"]]))) as client:
        for key in ("u1", "u2"):
            body = question(key, key, of=key)
            await client.post("chat", json=body, headers={"prefer": "respond-async", "idempotency-key": key})
        async with (
            reading(client, "GET", "chat/stream") as resumed,
            reading(client, "GET", "chat/stream?request=u1") as named,
        ):
            await resumed.until(lambda event: "Hel" in event.data)
            gate.open()
            await resumed.rest()
            await named.rest()
        assert [chunk["delta"] for chunk in resumed.chunks if chunk["type"] == "text-delta"] == ["Hel", "fine"]
        assert "error" not in [chunk["type"] for chunk in resumed.chunks]
        assert named.chunks[-1] == {"type": "error", "errorText": "no more"}


async def test_a_long_transcript_is_one_json_array() -> None:
    async with talking(chat(scripted(["ok"]))) as client:
        await ask(client, {"messages": [user(f"u{number}") for number in range(200)]})
        stored = (await client.get("get-messages")).json()
        assert len(stored) == 201
        head = await client.head("get-messages")
        assert (head.status_code, head.content) == (200, b"")


# -- stopping -------------------------------------------------------------------------------------------------------


async def test_stop_ends_the_running_turn_and_keeps_what_was_said() -> None:
    gate = Gate()
    async with talking(chat(scripted(["Hel", gate, "lo"]))) as client:
        async with reading(client, "POST", "chat", json=question()) as reader:
            await reader.until(lambda event: "Hel" in event.data)
            request = reader.response.headers["x-everyword-request"]
            stopped = await client.post("chat/stop")
            assert (stopped.status_code, stopped.json()) == (200, {"stopped": [request]})
            events = await reader.rest()
        assert ending(events) == {"type": "abort", "reason": "cancelled"}
        assert text_of((await client.get("get-messages")).json()[-1]) == "Hel"
        assert (await client.post("chat/stop")).json() == {"stopped": []}


async def test_stop_with_a_stale_request_id_stops_nothing_else() -> None:
    gate = Gate()
    async with talking(chat(scripted(lambda turn: ["a", gate] if turn.id == "new" else ["b"]))) as client:
        await ask(client, question("u1"), idempotency_key="old")
        async with reading(client, "POST", "chat", json=question("u2"), headers={"idempotency-key": "new"}) as reader:
            await reader.until(lambda event: '"a"' in event.data)
            for request in ("old", "never"):
                answer = await client.post("chat/stop", json={"requestId": request})
                assert answer.json() == {"stopped": []}
            gate.open()
            assert ending(await reader.rest()) == {"type": "finish"}
        assert (await client.post("chat/stop", json={"requestId": 5})).status_code == 400


async def test_a_turn_that_waits_can_be_stopped_by_its_request_id() -> None:
    gate = Gate()
    async with talking(chat(scripted(["a", gate]))) as client:
        headers = {"prefer": "respond-async"}
        for key in ("one", "two"):
            await client.post("chat", json=question(key), headers={**headers, "idempotency-key": key})
        async with reading(client, "GET", "chat/stream?request=two") as waiting:
            assert (await client.post("chat/stop", json={"requestId": "two"})).json() == {"stopped": ["two"]}
            assert ending(await waiting.rest()) == {"type": "abort", "reason": "cancelled"}
        gate.open()
        assert ending((await ask(client, idempotency_key="one")).events) == {"type": "finish"}


# -- staying through ----------------------------------------------------------------------------------------------


async def test_streams_of_a_server_that_stops_are_cut_off_and_not_ended() -> None:
    gate = Gate()
    app = chat(scripted(["Hel", gate]))
    async with talking(app) as client:
        async with reading(client, "POST", "chat", json=question()) as reader:
            await reader.until(lambda event: "Hel" in event.data)
            closing = asyncio.create_task(app.aclose())
            with pytest.raises(httpx.RemoteProtocolError, match="incomplete"):
                await reader.rest()
            await closing
        assert all(chunk["type"] != "abort" for chunk in chunks_of(reader.events))


async def test_a_question_is_stored_while_the_server_stops_and_asked_to_come_back_after() -> None:
    gate = Gate()
    app = chat(scripted(["Hel", gate]))
    app.grace = PATIENCE
    async with talking(app) as client:
        async with reading(client, "POST", "chat", json=question()) as reader:
            await reader.until(lambda event: "Hel" in event.data)
            closing = asyncio.create_task(app.aclose())
            await asyncio.sleep(0)
            later = {"prefer": "respond-async"}
            assert (await client.post("chat", json=question("u2"), headers=later)).status_code == 202
            gate.open()
            assert ending(await reader.rest()) == {"type": "finish"}
        app._directory.phase = ShutdownPhase.CLOSED  # as it is in the moment before the web server stops listening
        answer = await client.post("chat", json=question("u3"), headers=later)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        await closing


# -- the log itself -----------------------------------------------------------------------------------------------


async def test_the_log_is_told_event_by_event_with_its_cursors() -> None:
    async with talking(chat(scripted(["Hello"]))) as client:
        await ask(client, idempotency_key="k1")
        async with reading(client, "GET", "events?after=0") as log:
            await log.until(lambda event: "turn.ended" in event.data)
        kinds = [json.loads(event.data)["t"] for event in log.events]
        assert [event.id for event in log.events] == [str(seq) for seq in range(1, len(kinds) + 1)]
        assert kinds[:2] == ["turn.accepted", "attempt.started"]
        assert kinds[-2:] == ["message.ended", "turn.ended"]
        for cursor in range(1, len(kinds)):
            async with reading(client, "GET", "events", headers={"last-event-id": str(cursor)}) as late:
                await late.until(lambda event: "turn.ended" in event.data)
            assert late.events == log.events[cursor:]


async def test_without_a_cursor_the_log_begins_with_where_it_stands() -> None:
    gate = Gate()
    async with talking(chat(scripted(["Hel", gate, "lo"]))) as client:
        async with reading(client, "POST", "chat", json=question(), headers={"idempotency-key": "k1"}) as reader:
            await reader.until(lambda event: "Hel" in event.data)
            async with reading(client, "GET", "events") as log:
                standing = await log.until(lambda event: event.event == "snapshot")
                gate.open()
                await log.until(lambda event: "turn.ended" in event.data)
            await reader.rest()
        told = json.loads(standing.data)
        (turn,) = told["turns"]
        assert (turn["request"], turn["status"], text_of(folded(turn["chunks"]))) == ("k1", "running", "Hel")
        question_node, answer_node = told["nodes"]
        assert (bare([question_node["message"]]), answer_node["message"]) == ([user("u1")], None)
        assert standing.id is not None and int(standing.id) + 1 == int(log.events[1].id or 0)
        rest = [json.loads(event.data) for event in log.events[1:]]
        chunks = [*turn["chunks"], *(event["body"] for event in rest if event["t"] == "chunk")]
        assert folded(chunks) == folded(reader.chunks)


async def test_a_cursor_from_beyond_the_log_starts_afresh() -> None:
    async with talking(chat(scripted(["Hello"]))) as client:
        await ask(client)
        async with reading(client, "GET", "events?after=100000") as log:
            standing = await log.until(lambda event: True)
        assert standing.event == "snapshot"
        nodes = json.loads(standing.data)["nodes"]
        assert [text_of(node["message"]) for node in nodes] == ["hi", "Hello"]


async def test_the_log_tells_how_turns_failed_and_nothing_private() -> None:
    async with talking(chat(scripted([ValueError("secret path")]))) as client:
        await ask(client, question(token="secret token"))
        for path in ("events", "events?after=0"):
            async with reading(client, "GET", path) as log:
                await log.until(lambda event: '"error"' in event.data)
            assert "secret" not in log.raw.decode()
