"""Access control for sockets: which clients are admitted, which close codes stop reconnecting, and the limits."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed

from everyword.server import Connecting, Limits, Principal, Reject
from everyword.testing import Gate
from tests.server.kit import PATIENCE, chat, connect, scripted, serving
from tests.server.sockets import Socket, socket

REFUSED, TRY_LATER = 1008, 1013


# -- authorize --------------------------------------------------------------------------------------------------------


async def _by_token(connecting: Connecting) -> Principal | Reject | None:
    """Know some people by the token in the URL: browsers cannot send headers with a socket."""
    match connecting.request.query_params.get("token"):
        case "sesame":
            return Principal("ann")
        case "broke":
            return Reject("Your plan has ended.", 402)
        case "hacked":
            raise RuntimeError("the user database is down")
        case "later":
            return Reject("Down for maintenance.", 503)
        case _:
            return None


@pytest.mark.parametrize(
    ("token", "status", "code", "reason"),
    [
        ("", 401, REFUSED, "does not know you"),
        ("broke", 402, REFUSED, "Your plan has ended."),
        ("hacked", 500, TRY_LATER, "could not check your permissions"),
        ("later", 503, TRY_LATER, "Down for maintenance."),
    ],
)
async def test_a_refused_client_stays_away_and_one_that_met_an_error_reconnects(
    token: str, status: int, code: int, reason: str
) -> None:
    """P-33: the stock client gives up at 1008 and tries again at 1013; HTTP gives the same people the same verdict."""
    app = chat(scripted(["x"]), authorize=_by_token)
    async with serving(app) as url:
        async with socket(url, f"?token={token}") as refused:
            found, said = await refused.closed()
            assert (found, reason in said, "database" in said) == (code, True, False)
        async with connect(f"{url}/agents/chat/ann") as client:
            answer = await client.get("get-messages", params={"token": token})
            assert (answer.status_code, reason in answer.text) == (status, True)
        assert len((await app.start()).directory) == 0


async def test_the_client_on_the_socket_is_the_one_that_authorize_checked() -> None:
    """P-32: names may have any characters."""
    asked: list[tuple[str, str]] = []

    async def authorize(connecting: Connecting) -> Principal:
        asked.append((connecting.agent.__name__, connecting.name))
        return Principal("ann")

    async with serving(chat(scripted(["Hello"]), authorize=authorize)) as url:
        async with socket(url, name="a%2Fb%20c") as client:
            assert (await client.greeted())["name"] == "a/b c"
            await client.ask("r1")
            assert (await client.ended("r1"))["outcome"] == "completed"
    assert asked == [("Chat", "a/b c")]


async def test_a_token_in_the_url_is_in_no_log_line(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("uvicorn", "websockets", "httpx", "httpcore"):  # what a server in front writes is its own
        caplog.set_level(logging.CRITICAL, logger=name)
    caplog.set_level(logging.DEBUG)
    async with serving(chat(scripted(["x"]), authorize=_by_token)) as url:
        for token in ("sesame", "broke", "hacked", "unheard-of"):
            async with socket(url, f"?token={token}") as client:
                if token == "sesame":
                    await client.ask("r1")
                    await client.ended("r1")
                    await client.connection.send("nonsense with sesame")
                    await client.send(type="cf_agent_use_chat_request", id="r2", init={"method": "POST", "body": "{"})
                    await client.ended("r2")
                else:
                    await client.closed()
            async with connect(f"{url}/agents/chat/ann", headers={"authorization": f"Bearer {token}"}) as http:
                await http.get("get-messages", params={"token": token})
    records = [record for record in caplog.records if record.name.startswith("everyword")]
    ours = [record.getMessage() + str(record.exc_text) for record in records]
    assert any("`authorize` failed" in line for line in ours), "the logger was heard"
    for token in ("sesame", "broke", "unheard-of", "token="):
        assert [line for line in ours if token in line] == []


# -- other sites' pages -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origins", "origin", "is_let_in"),
    [
        ((), None, True),
        ((), "http://{host}", True),
        ((), "https://a.example", False),
        (["https://a.example"], "https://a.example", True),
        (["https://a.example"], "https://b.example", False),
        (["http://localhost:*"], "http://localhost:5173", True),
        ((), "null", False),
    ],
)
async def test_a_page_of_another_site_needs_an_invitation_for_its_socket_too(
    origins: Any, origin: str | None, is_let_in: bool
) -> None:
    async with serving(chat(scripted(["x"]), origins=origins)) as url:
        headers = {} if origin is None else {"origin": origin.format(host=url.removeprefix("http://"))}
        async with socket(url, **headers) as client:
            if is_let_in:
                assert (await client.greeted())["agent"] == "chat"
            else:
                code, reason = await client.closed()
                assert (code, "unable to serve pages of" in reason) == (REFUSED, True)


# -- this machine only ------------------------------------------------------------------------------------------------


FORWARDING = ["forwarded", "via", "x-forwarded-for", "x-forwarded-port", "x-real-ip"]
FORWARDING += ["cf-connecting-ip", "true-client-ip", "x-client-ip"]


@pytest.mark.parametrize("header", ["host", *FORWARDING])
async def test_without_authorize_a_socket_that_is_not_of_this_machine_is_closed_for_good(header: str) -> None:
    async with serving(chat(scripted(["x"]))) as url:
        host = {"host": "agents.example"} if header == "host" else {header: "203.0.113.7"}
        async with socket(url, **host) as client:
            code, reason = await client.closed()
            assert (code, "unable to accept the request" in reason) == (REFUSED, True)


# -- limits -----------------------------------------------------------------------------------------------------------


async def test_a_frame_that_is_too_large_is_answered_under_its_id_and_the_socket_stays() -> None:
    """P-35."""
    async with serving(chat(scripted(["x"]), limits=Limits(frame=4000))) as url, socket(url) as client:
        for request, text in [("r1", "x" * 5000), ("r2", "ä" * 3000)]:
            await client.ask(request, text)
            refused = await client.ended(request)
            assert (refused["error"], refused["outcome"]) == (True, "error")
            assert "unable to take the message; it is larger" in refused["body"]
        await client.ask("r3", "x" * 500)
        assert (await client.ended("r3"))["outcome"] == "completed"


async def test_a_seat_is_free_again_when_its_socket_is_gone() -> None:
    async with serving(chat(scripted(["x"]), limits=Limits(sockets_per_agent=1))) as url:
        async with socket(url) as first:
            await first.greeted()
            async with socket(url) as second:
                code, reason = await second.closed()
                assert (code, "it has 1 readers, which is the limit" in reason) == (TRY_LATER, True)
            async with socket(url, name="bob") as elsewhere:
                assert (await elsewhere.greeted())["name"] == "bob"
        async with asyncio.timeout(PATIENCE):
            while not await _finds_a_seat(url):
                pass


async def _finds_a_seat(url: str) -> bool:
    async with socket(url) as client:
        try:
            return bool(await client.greeted())
        except ConnectionClosed:
            return False


async def test_a_question_beyond_the_limit_of_waiting_turns_is_answered_and_the_others_go_on() -> None:
    gate = Gate()
    app = chat(scripted([gate, "Hello"]), limits=Limits(queued_turns=2))
    async with serving(app) as url, socket(url) as client:
        await client.ask("r1")
        await gate.reached.wait()
        await client.ask("r2")
        await client.ask("r3")
        refused = await client.ended("r3")
        assert (refused["error"], "2 turns are waiting, which is the limit" in refused["body"]) == (True, True)
        gate.open()
        assert (await client.ended("r1"))["outcome"] == (await client.ended("r2"))["outcome"] == "completed"


async def test_a_client_that_asks_too_often_gets_the_delay_and_may_read_and_stop() -> None:
    gate = Gate()
    app = chat(scripted([gate, "Hello"]), limits=Limits(requests_per_minute=1))
    async with serving(app) as url, socket(url) as client, socket(url) as other:
        await client.ask("r1")
        await gate.reached.wait()
        await client.ask("r2")
        refused = await client.ended("r2")
        assert (refused["error"], "unable to ask; too many questions within a minute. Wait" in refused["body"]) == (
            True,
            True,
        )
        await other.ask("r3")
        assert (await other.ended("r3"))["error"] is True, "it is the person who is counted, and not the socket"
        await client.send(type="cf_agent_chat_request_cancel", id="r1")
        assert (await client.ended("r1"))["outcome"] == "aborted"


# -- what a client may send -------------------------------------------------------------------------------------------


async def test_a_socket_without_an_id_of_its_own_is_given_one_and_two_with_the_same_do_not_hide_each_other() -> None:
    """Traps 214 and 215: the client chooses `_pk`; the server decides by socket what to send."""
    async with serving(chat(scripted(["Hello"]))) as url:
        for query in ("", "?_pk=", "?_pk=same"):
            async with socket(url, query) as first, socket(url, query) as second:
                await second.greeted()
                request = f"r{query}"
                await first.ask(request)
                assert (await first.ended(request))["outcome"] == "completed"
                assert (await second.ended(request))["outcome"] == "completed"
                shown = [frame for frame in second.frames if frame["type"] == "cf_agent_chat_messages"]
                assert any(message["id"] == f"u-{request}" for frame in shown for message in frame["messages"])


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", "{}", '{"type":"cf_agent_use_chat_request"}', '{"type":"rpc","id":1}', "[" * 50_000, "\x00"],
)
async def test_no_text_frame_ends_the_socket_or_disturbs_a_neighbour(text: str) -> None:
    """Trap 221, P-36: what cannot be used is passed over or answered; the conversation goes on."""
    async with serving(chat(scripted(["Hello"]))) as url, socket(url) as client, socket(url) as neighbour:
        await client.connection.send(text)
        await client.ask("r1")
        assert (await client.ended("r1"))["outcome"] == "completed"
        assert (await neighbour.ended("r1"))["outcome"] == "completed"


@pytest.mark.parametrize("init", [{}, {"init": None}, {"init": {"method": "GET"}}, {"init": {"method": "post"}}])
async def test_a_request_that_is_no_post_is_answered_under_its_id(init: dict[str, Any]) -> None:
    """P-36."""
    heard: list[str] = []

    async def on_message(self: Any, connection: Any, message: str) -> None:
        heard.append(message)

    async with serving(chat(scripted(["Hello"], on_message=on_message))) as url, socket(url) as client:
        await client.send(type="cf_agent_use_chat_request", id="r0", **init)
        answer = await client.ended("r0")
        assert answer["error"] is True and answer["body"].startswith("unable to read the request")
        await client.ask("r1")
        assert (await client.ended("r1"))["outcome"] == "completed"
    assert heard == []


async def test_calls_and_states_that_the_agent_does_not_take_are_answered_in_general_words() -> None:
    """Trap 200: only the server's log says exactly what was wrong."""

    def refuse(self: Any, state: Any, source: Any) -> None:
        raise ValueError("a secret reason")

    async with serving(chat(scripted(["x"], validate_state_change=refuse))) as url, socket(url) as client:
        await client.send(type="cf_agent_state", state={"a": 1})
        refused = await client.until(lambda frame: frame["type"] == "cf_agent_state_error")
        assert refused["error"] == "State update rejected"
        await client.send(type="rpc", id="c1", method="nothing", args=[])
        answer = await client.until(lambda frame: frame["type"] == "rpc")
        assert answer == {"type": "rpc", "id": "c1", "success": False, "error": "Method nothing does not exist"}


async def test_what_a_client_sent_before_it_was_greeted_is_taken() -> None:
    """Trap 219, P-47: the stock client flushes what it kept before it knows that it is connected."""
    async with serving(chat(scripted(["Hello"]))) as url, socket(url) as client:
        await client.send(type="cf_agent_stream_resume_request", probeId="p1")
        await client.ask("r1")
        assert (await client.ended("r1"))["outcome"] == "completed"
        told = [frame["type"] for frame in client.frames]
        assert told[:3] == ["cf_agent_chat_messages", "cf_agent_identity", "cf_agent_mcp_servers"]
        probe = next(frame for frame in client.frames if frame.get("probeId") == "p1")
        assert probe == {"type": "cf_agent_stream_resume_none", "reason": "idle", "probeId": "p1"}


async def test_a_question_sent_again_after_its_end_is_answered_with_its_end() -> None:
    """P-16: a client that lost the end asks again under the same id."""
    agent = scripted(["Hello"])
    async with serving(chat(agent)) as url, socket(url) as client:
        await client.ask("r1")
        first = await client.ended("r1")
        client.frames.clear()
        await client.ask("r1")
        assert await client.ended("r1") == first
        async with connect(f"{url}/agents/chat/ann") as http:
            assert len((await http.get("get-messages")).json()) == 2
        assert len(agent.turns) == 1  # type: ignore[attr-defined]


async def test_further_fields_of_the_url_make_no_other_conversation() -> None:
    """Traps 26 and 205: a token that changes at every reconnect leads to the same conversation."""
    async with serving(chat(scripted(["Hello"]))) as url:
        async with socket(url, "?_pk=p&token=old&x=%2F") as first, socket(url, "?_pk=p&token=new") as second:
            await second.greeted()
            await first.ask("r1")
            assert (await second.ended("r1"))["outcome"] == "completed"
        async with socket(url) as third:
            shown = await third.until(lambda frame: frame["type"] == "cf_agent_chat_messages")
            assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]


@pytest.mark.parametrize("base_path", ["agents/chat/ann", "/agents/chat/ann", "agents/chat/ann/", "/agents/chat/ann/"])
async def test_the_base_path_of_a_stock_client_may_have_slashes_around_it(base_path: str) -> None:
    """P-32. The stock client writes `ws://host/${basePath}`, and asks for `…/get-messages` below it."""
    asked: list[str] = []

    async def authorize(connecting: Connecting) -> Principal:
        asked.append(connecting.name)
        return Principal("ann")

    async with serving(chat(scripted(["hello"]), authorize=authorize)) as url:
        address = f"{url}/{base_path}"
        async with open_socket(f"ws{address.removeprefix('http')}?_pk=1", proxy=None) as connection:
            stock = Socket(connection)
            assert (await stock.greeted())["name"] == "ann"
            await stock.ask("r1")
            await stock.ended("r1")
        async with connect(url) as client:
            stored = await client.get(f"{address}/get-messages")
        assert [message["role"] for message in stored.json()] == ["user", "assistant"]
    assert asked == ["ann", "ann"]


async def test_what_lies_below_an_agent_and_does_not_exist_is_not_the_agent() -> None:
    """Trap 217: the transcript of one agent is never the answer to a question about another."""
    async with serving(chat(scripted(["Hello"]))) as url, connect(f"{url}/agents/chat/ann") as client:
        answer = await client.get("sub/nobody/x/get-messages")
        assert (answer.status_code, "unable to find" in answer.text) == (404, True)


async def test_frames_of_one_client_are_taken_in_the_order_in_which_they_were_sent() -> None:
    """P-48: the stop finds the question, the clear finds both, and the last question stands alone."""
    gate = Gate()
    async with serving(chat(scripted(lambda turn: [gate] if turn.id == "r1" else ["Hello"]))) as url:
        async with socket(url) as client:
            await client.ask("r1")
            await client.send(type="cf_agent_chat_request_cancel", id="r1")
            await client.ask("r2")
            await client.send(type="cf_agent_chat_clear")
            await client.ask("r3")
            assert (await client.ended("r3"))["outcome"] == "completed"
            assert (await client.ended("r1"))["outcome"] == "aborted"
            async with connect(f"{url}/agents/chat/ann") as http:
                stored = (await http.get("get-messages")).json()
            assert [message["id"] for message in stored][:1] == ["u-r3"] and len(stored) == 2


async def test_a_read_only_client_cannot_stop_answer_or_edit_and_sees_everything() -> None:
    """P-34."""
    gate = Gate()

    async def authorize(connecting: Connecting) -> Principal:
        return Principal("ann", read_only=connecting.request.query_params.get("guest") == "1")

    call = {"type": "tool-input-available", "toolCallId": "k", "toolName": "look", "input": {}}
    app = chat(scripted([call, gate, "Hello"]), authorize=authorize)
    async with serving(app) as url, socket(url) as owner:
        await owner.greeted()
        async with socket(url, "?guest=1") as guest:
            await guest.greeted()
            await owner.ask("r1")
            await gate.reached.wait()
            await guest.send(type="cf_agent_chat_request_cancel", id="r1")
            await guest.answer("k", "forged")
            await guest.send(type="cf_agent_chat_messages", messages=[{"id": "u-r1", "role": "user", "parts": []}])
            await guest.ask("r2")
            assert (await guest.ended("r2"))["error"] is True
            gate.open()
            assert (await guest.ended("r1"))["outcome"] == "completed"
            shown = [frame for frame in guest.frames if frame["type"] == "cf_agent_chat_messages"][-1]["messages"]
            assert "forged" not in str(shown) and shown[0]["parts"][0]["text"] == "hi"
