"""Who a client is and what it may do: `authenticate` once, `authorize` for everything (I-14)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from everyword import Agent, AIChatAgent, Everyword, Principal, Reject, Turn, callable_method
from everyword.errors import UsageError
from everyword.ids import AgentId
from everyword.testing import Gate, ManualClock
from tests.server.kit import chat, connect, question, scripted, serving, talking, user
from tests.server.sockets import socket

EVERYTHING = {"connect", "read", "ask", "stop", "answer", "edit", "clear", "state", "call", "send", "request"}


def by_header(connection: HTTPConnection) -> Principal | None:
    """The principal that the request names, until `expires`."""
    who = connection.headers.get("x-user") or connection.query_params.get("user")
    until = connection.query_params.get("until")
    return Principal(who, expires_at=float(until) if until else None) if who else None


class Rules:
    """An `authorize` that allows some actions, and notes what it was asked."""

    def __init__(self, *allowed: str) -> None:
        self.allowed, self.asked = set(allowed), list[tuple[str, str, str, str]]()

    async def __call__(self, principal: Principal, action: str, kind: str, name: str) -> bool | Reject:
        self.asked.append((principal.id, action, kind, name))
        if action == "clear":
            return Reject("unable to clear; keep your records", 409)
        return action in self.allowed


class Desk(AIChatAgent):
    """An agent that notes what reaches it."""

    kind = "chat"
    heard: list[str] = []  # noqa: RUF012 - of one test's class

    async def on_chat_message(self, turn: Turn) -> Any:
        assert turn.principal is not None
        yield f"hello {turn.principal.id}"

    async def on_message(self, connection: Any, message: str) -> None:
        self.heard.append(f"{connection.principal.id}: {message}")

    @callable_method
    async def who(self) -> str:
        assert self.principal is not None
        return self.principal.id

    async def on_request(self, request: Any) -> Any:
        from starlette.responses import PlainTextResponse

        assert self.principal is not None
        return PlainTextResponse(self.principal.id)


def desk(*allowed: str, **options: Any) -> tuple[Everyword, Rules]:
    rules = Rules(*allowed)
    return chat(
        type("Desk", (Desk,), {"heard": [], "kind": "chat"}), authenticate=by_header, authorize=rules, **options
    ), rules


async def asked(http: Any) -> Any:
    return await http.post("chat", json=question())


# -- who it is -----------------------------------------------------------------------------------------------


async def test_a_stranger_is_told_to_sign_in_before_anything_else() -> None:
    app, rules = desk(*EVERYTHING)
    async with serving(app) as url, connect(url) as http:
        for path in ("/agents/chat/ann/get-messages", "/agents/nothing/ann/get-messages", "/elsewhere"):
            answer = await http.get(path)
            assert answer.status_code == 401, path
            assert "Sign in" in answer.text
        async with socket(url) as client:
            assert (await client.closed())[0] == 1008
    assert rules.asked == []


async def test_authenticate_may_be_a_plain_function_or_not_and_is_asked_once_per_socket() -> None:
    asked: list[str] = []

    async def authenticate(connection: HTTPConnection) -> Principal:
        asked.append(connection.scope["type"])
        return Principal("ann")

    app = chat(scripted(["hello"]), authenticate=authenticate, authorize=lambda principal, action, kind, name: True)
    async with serving(app) as url, socket(url) as client:
        await client.ask("r1")
        await client.ended("r1")
        await client.ask("r2")
        await client.ended("r2")
    assert asked == ["websocket"]


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        ({"authenticate": by_header}, "`authenticate` alone"),
        ({"authorize": lambda principal, action, kind, name: True}, "give `authenticate"),
        ({"authenticate": by_header, "authorize": lambda connecting: None}, "beside `authenticate`"),
        ({"authorize": "ann"}, "give a function"),
        ({"authenticate": "ann", "authorize": Rules()}, "give a function"),
    ],
)
def test_hooks_that_do_not_fit_together_are_refused_at_once(hooks: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Everyword([scripted([])], store="memory:", **hooks)


async def test_the_shorthand_still_answers_both_questions() -> None:
    async def authorize(connecting: Any) -> Principal | None:
        return Principal("ann", name="Ann") if connecting.name == "ann" else None

    app = chat(type("Desk", (Desk,), {"kind": "chat"}), authorize=authorize)
    async with serving(app) as url:
        async with connect(f"{url}/agents/chat/ann") as http:
            assert "hello ann" in (await asked(http)).text
        async with connect(f"{url}/agents/chat/bob") as http:
            assert (await http.get("get-messages")).status_code == 401


# -- what it may do ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "action"),
    [
        ("GET", "get-messages", "read"),
        ("GET", "chat/stream", "read"),
        ("GET", "chat/an-id/stream", "read"),
        ("POST", "chat/stop", "stop"),
        ("GET", "anything", "request"),
        ("POST", "anything", "request"),
    ],
)
async def test_a_request_needs_its_action_and_no_other(method: str, path: str, action: str) -> None:
    for allowed, is_let_in in ((EVERYTHING - {action}, False), ({action}, True)):
        app, rules = desk(*allowed)
        async with talking(app, headers={"x-user": "eve"}) as http:
            status = (await http.request(method, path, json={})).status_code
        assert (status not in (401, 403)) is is_let_in, (allowed, status)
        assert ("eve", action, "chat", "ann") in rules.asked


async def test_a_question_over_http_needs_ask() -> None:
    for allowed, status in (({"ask"}, 200), (EVERYTHING - {"ask"}, 403), ({"answer"}, 403)):
        app, _ = desk(*allowed)
        async with talking(app, headers={"x-user": "eve"}) as http:
            answer = await asked(http)
            assert answer.status_code == status
            assert ("hello eve" in answer.text) is (status == 200)


async def test_a_refused_request_touches_no_agent() -> None:
    app, _ = desk()
    async with serving(app) as url, connect(f"{url}/agents/chat/ann", headers={"x-user": "eve"}) as http:
        assert (await http.get("get-messages")).status_code == 403
        async with socket(url, "?user=eve") as client:
            assert await client.closed() == (1008, "unable to connect; you are not allowed to do that here")
        directory = (await app.service()).directory
        agent = AgentId("chat/ann")
        assert directory.peek(agent) is None and not await directory.store.has(agent)


@pytest.mark.parametrize("action", sorted(EVERYTHING - {"connect", "read", "request", "stop", "answer", "clear"}))
async def test_a_frame_needs_its_action(action: str) -> None:
    outcomes: list[Any] = []
    for allowed in (EVERYTHING, EVERYTHING - {action}):
        app, _ = desk(*allowed)
        async with serving(app) as url, socket(url, "?user=ann") as client:
            await client.greeted()
            outcomes.append(await _do(action, client, app))
    done, refused = outcomes
    assert done is True
    assert refused is not True and refused is not None


async def _do(action: str, client: Any, app: Everyword) -> Any:
    """Do something over a socket; return True when it was done, or what was said instead."""
    match action:
        case "ask":
            await client.ask("r1")
            ended = await client.ended("r1")
            return True if not ended.get("error") else ended["body"]
        case "state":
            await client.send(type="cf_agent_state", state={"n": 1})
            await client.settled()
            errors = [frame for frame in client.frames if frame["type"] == "cf_agent_state_error"]
            return errors or True
        case "call":
            await client.send(type="rpc", id="c1", method="who", args=[])
            reply = await client.until(lambda frame: frame.get("id") == "c1")
            return (reply["success"] and reply["result"] == "ann") or reply["error"]
        case "edit":
            listed = [user("u1", "mine")]
            await client.send(type="cf_agent_chat_messages", messages=listed)
            await client.settled()
            shown = [frame for frame in client.frames if frame["type"] == "cf_agent_chat_messages"]
            return True if [each["id"] for each in shown[-1]["messages"]] == ["u1"] else "not stored"
        case "send":
            await client.send(type="own", text="hi")
            await client.settled()
            cls = app.classes["chat"]
            return True if cls.heard else "passed over"  # type: ignore[attr-defined]
        case _:
            raise AssertionError(action)


async def test_what_was_refused_is_shown_as_it_is_stored() -> None:
    app, _ = desk(*EVERYTHING - {"clear"})
    async with serving(app) as url, socket(url, "?user=ann") as client:
        await client.ask("r1")
        await client.ended("r1")
        client.frames.clear()
        await client.send(type="cf_agent_chat_clear")
        shown = await client.until(lambda frame: frame["type"] == "cf_agent_chat_messages")
        assert [message["role"] for message in shown["messages"]] == ["user", "assistant"]


async def test_stopping_needs_stop() -> None:
    gate = Gate()
    rules = Rules(*EVERYTHING - {"stop"})
    app = chat(scripted(["hello ", gate, "world"]), authenticate=by_header, authorize=rules)
    async with serving(app) as url, socket(url, "?user=ann") as client:
        await client.ask("r1")
        await client.until(lambda frame: "hello" in frame.get("body", ""))
        await client.send(type="cf_agent_chat_request_cancel", id="r1")
        await client.settled()
        gate.open()
        ended = await client.ended("r1")
        assert not ended.get("error")
        assert ("ann", "stop", "chat", "ann") in rules.asked


@pytest.mark.parametrize("verdict", [None, "yes", 1, Principal("ann"), RuntimeError("no database")])
async def test_only_true_allows(verdict: Any, caplog: pytest.LogCaptureFixture) -> None:
    def authorize(principal: Principal, action: str, kind: str, name: str) -> Any:
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    app = chat(scripted(["hello"]), authenticate=by_header, authorize=authorize)
    async with talking(app, headers={"x-user": "ann"}) as http:
        answer = await http.get("get-messages")
    assert answer.status_code == 500
    assert "could not check" in answer.text and "database" not in answer.text
    assert "`authorize`" in caplog.text


async def test_a_reject_of_authorize_says_why() -> None:
    def authorize(principal: Principal, action: str, kind: str, name: str) -> bool | Reject:
        return Reject("unable to read; pay first", 402)

    app = chat(scripted(["hello"]), authenticate=by_header, authorize=authorize)
    async with talking(app, headers={"x-user": "ann"}) as http:
        answer = await http.get("get-messages")
    assert (answer.status_code, answer.text) == (402, "unable to read; pay first\n")


async def test_a_read_only_principal_changes_nothing_whatever_authorize_says() -> None:
    app = chat(
        scripted(["hello"]),
        authenticate=lambda connection: Principal("ann", read_only="guest" in connection.query_params),
        authorize=lambda principal, action, kind, name: True,
    )
    async with talking(app) as http:
        assert (await asked(http)).status_code == 200
        answer = await http.post("chat?guest=1", json={"messages": [user("u2")]})
        assert answer.status_code == 403


# -- until when ----------------------------------------------------------------------------------------------


async def test_a_socket_ends_with_its_principals_time_and_its_turn_goes_on() -> None:
    gate, clock = Gate(), ManualClock()
    app = chat(scripted(["hello ", gate, "world"]), authenticate=by_header, authorize=Rules(*EVERYTHING))
    app.clock = clock
    until = clock.now() / 1000 + 60
    async with serving(app) as url:
        async with socket(url, f"?user=ann&until={until}") as client, socket(url, "?user=ann") as other:
            await client.ask("r1")
            await client.until(lambda frame: "hello" in frame.get("body", ""))
            clock.advance(59)
            await client.settled()
            clock.advance(1)
            code, reason = await client.closed_after_frames()
            assert (code, "session has ended" in reason) == (1012, True)
            gate.open()
            assert "world" in json.dumps(await _told(other, "r1"))
        async with socket(url, f"?user=ann&until={until}") as client:
            assert (await client.closed())[0] == 1008
        async with connect(f"{url}/agents/chat/ann?user=ann&until={until}") as http:
            assert (await http.get("get-messages", params={"user": "ann", "until": f"{until}"})).status_code == 401


async def _told(client: Any, request: str) -> Any:
    await client.ended(request)
    return client.frames


async def test_a_frame_of_an_expired_principal_is_refused_even_before_its_socket_is_closed() -> None:
    from everyword.server.permissions import Permit

    clock = ManualClock()
    permit = Permit(Principal("ann", expires_at=clock.now() / 1000 + 1), clock=clock)
    assert await permit.refuse("ask") is None
    clock.advance(1)
    refused = await permit.refuse("read")
    assert refused is not None and refused.status == 401


async def test_disconnecting_a_principal_closes_all_that_it_has_open_and_nothing_of_others() -> None:
    gate = Gate()
    app = chat(scripted(["hello ", gate, "world"]), authenticate=by_header, authorize=Rules(*EVERYTHING))
    async with serving(app) as url, connect(url, headers={"x-user": "eve"}) as http:
        async with socket(url, "?user=eve") as eve, socket(url, "?user=eve", name="bob") as also:
            async with socket(url, "?user=ann") as ann:
                await ann.ask("r1")
                await ann.until(lambda frame: "hello" in frame.get("body", ""))
                async with http.stream("GET", "/agents/chat/ann/events") as events:
                    pieces = events.aiter_bytes()
                    await anext(pieces)
                    await asyncio.gather(eve.greeted(), also.greeted())
                    assert await app.disconnect(principal="eve") == 3
                    assert (await eve.closed_after_frames())[0] == 1012
                    assert (await also.closed_after_frames())[0] == 1012
                    with pytest.raises(Exception, match=r"peer closed|incomplete|disconnected"):
                        async for _ in pieces:
                            pass
                gate.open()
                assert not (await ann.ended("r1")).get("error")
        assert await app.disconnect(principal=Principal("eve")) == 0


# -- who the code works for ----------------------------------------------------------------------------------


async def test_hooks_callables_and_requests_know_their_principal() -> None:
    seen: list[tuple[str, str | None]] = []

    class Room(Agent):
        kind = "chat"

        def note(self, where: str) -> None:
            seen.append((where, self.principal.id if self.principal is not None else None))

        async def on_start(self) -> None:
            self.note("on_start")

        async def on_connect(self, connection: Any, request: Any) -> None:
            self.note("on_connect")

        async def on_state_changed(self, state: Any, source: Any) -> None:
            self.note("on_state_changed")

        def validate_state_change(self, state: Any, source: Any) -> None:
            self.note("validate_state_change")

        @callable_method
        async def later(self) -> None:
            self.note("later")
            await self.queue("work", {})

        async def work(self, payload: Any) -> None:
            self.note("work")

    app = chat(Room, authenticate=by_header, authorize=Rules(*EVERYTHING))  # type: ignore[arg-type]
    async with serving(app) as url:
        async with socket(url, "?user=eve") as eve, socket(url, "?user=ann") as ann:
            await eve.greeted()
            await ann.greeted()
            await ann.send(type="cf_agent_state", state={"n": 1})
            await eve.until(lambda frame: frame["type"] == "cf_agent_state")
            await ann.send(type="rpc", id="c1", method="later", args=[])
            await ann.until(lambda frame: frame.get("id") == "c1")
            async with asyncio.timeout(20):
                while ("work", "ann") not in seen:
                    await ann.settled()
    assert ("on_start", None) in seen
    for where in ("validate_state_change", "on_state_changed", "later", "work"):
        assert (where, "ann") in seen and (where, "eve") not in seen, seen
    assert {("on_connect", "ann"), ("on_connect", "eve")} <= set(seen)


async def test_nothing_of_a_principal_reaches_clients_through_the_log() -> None:
    def authenticate(connection: HTTPConnection) -> Principal:
        return Principal("ann", name="Ann", claims={"secret": "open sesame"})

    app = chat(scripted(["hello"]), authenticate=authenticate, authorize=lambda principal, action, kind, name: True)
    async with talking(app) as http:
        await asked(http)
        async with http.stream("GET", "events", params={"after": "0"}) as events:
            said = ""
            async for piece in events.aiter_text():
                said += piece
                if "turn.ended" in said:
                    break
    assert "turn.accepted" in said
    assert "sesame" not in said
