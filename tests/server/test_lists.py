"""`/conversations` and `/approvals` over HTTP: what is listed, changed and answered, live and by whom."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from starlette.requests import HTTPConnection

from everyword import AIChatAgent, Approval, ConversationOptions, Everyword, Principal, tool
from everyword.agents.handles.conversations import write_cursor
from everyword.server import visible_pages
from tests.next_millisecond import next_millisecond
from tests.server.kit import PATIENCE, connect, serving
from tests.server.sockets import socket

STAFF = {"staff", "boss"}


def by_header(connection: HTTPConnection) -> Principal | None:
    who = connection.headers.get("x-user") or connection.query_params.get("user")
    roles = ["boss"] if who == "boss" else []
    return Principal(who, claims={"roles": roles}, read_only=who == "viewer") if who else None


def own_names(principal: Principal, action: str, kind: str, name: str) -> bool:
    """A conversation is for the principal whose name it begins with; staff may see and answer everything."""
    if principal.id in STAFF:
        return action in {"list", "answer", "connect", "read"}
    return name.startswith(principal.id) or principal.id == "viewer"


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield f"You said: {self.messages[-1].text}"


class Till(AIChatAgent):
    paid: ClassVar[list[int]] = []

    @tool(needs_approval=True, approvers=["boss"], approval_summary="Pay <b>now</b>", approval_risk="high")
    async def pay(self, amount: int) -> str:
        self.paid.append(amount)
        return f"paid {amount}"

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        async for step in turn.steps():
            call = {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": {"amount": 5}}
            async for chunk in step.run([call] if step.number == 1 and not turn.continuation else ["done"]):
                yield chunk


@asynccontextmanager
async def running(store: str = "memory:", **options: Any) -> AsyncIterator[tuple[Everyword, httpx.AsyncClient]]:
    given = {"authenticate": by_header, "authorize": own_names, **options}
    app = Everyword([Chat, Till], store=store, **given)
    async with asyncio.timeout(PATIENCE), serving(app) as url, connect(url) as client:
        await app.start()
        yield app, client


async def said(app: Everyword, name: str, text: str, who: str, cls: Any = Chat) -> None:
    await next_millisecond(app)
    await app.get(cls, name).for_principal(Principal(who)).save_messages(text)


def nested(depth: int) -> Any:
    """Return JSON with this many objects inside each other."""
    return {"a": nested(depth - 1)} if depth else 1


def user(who: str) -> dict[str, str]:
    return {"x-user": who}


async def names(client: httpx.AsyncClient, who: str, query: str = "") -> list[str]:
    response = await client.get(f"/conversations?{query}", headers=user(who))
    assert response.status_code == 200, response.text
    return [each["name"] for each in response.json()["conversations"]]


async def test_a_client_lists_its_own_conversations() -> None:
    async with running() as (app, client):
        await said(app, "ann-1", "hello", "ann")
        await said(app, "ann-2", "again", "ann")
        await said(app, "bob-1", "hi", "bob")
        assert await names(client, "ann") == ["ann-2", "ann-1"]
        assert await names(client, "ann", "scope=all") == ["ann-2", "ann-1"]
        assert await names(client, "staff") == []
        assert await names(client, "staff", "scope=all") == ["bob-1", "ann-2", "ann-1"]
        assert await names(client, "ann", "kind=till") == []
        page = (await client.get("/conversations?limit=1", headers=user("ann"))).json()
        (first,) = page["conversations"]
        assert (first["kind"], first["title"], first["preview"], first["owner"]) == (
            *("chat", "again", "You said: again"),
            "ann",
        )
        assert (first["status"], first["messages"], first["unread"], first["archived"]) == ("idle", 2, 1, False)
        assert await names(client, "ann", f"limit=1&cursor={page['cursor']}") == ["ann-1"]


async def test_a_conversation_is_renamed_archived_read_and_deleted() -> None:
    async with running() as (app, client):
        await said(app, "ann/1", "hello", "ann")
        path = "/conversations/chat/ann%2F1"
        changed = await client.patch(path, headers=user("ann"), json={"title": "New", "metadata": {"pinned": 1}})
        assert (changed.json()["title"], changed.json()["metadata"]) == ("New", {"pinned": 1})
        assert (await client.post(f"{path}/read", headers=user("ann"), json={})).json()["unread"] == 0
        assert (await client.patch(path, headers=user("ann"), json={"archived": True})).json()["archived"]
        assert await names(client, "ann") == []
        assert await names(client, "ann", "archived=1") == ["ann/1"]
        assert await names(client, "ann", "archived=any&status=idle") == ["ann/1"]
        assert (await client.get(path, headers=user("ann"))).json()["name"] == "ann/1"
        assert (await client.delete(path, headers=user("ann"))).status_code == 204
        assert (await client.get(path, headers=user("ann"))).status_code == 404
        assert (await client.delete(path, headers=user("ann"))).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "who", "status"),
    [
        ("GET", "/conversations", None, None, 401),
        ("GET", "/conversations/chat/ann-1", None, "bob", 403),
        ("PATCH", "/conversations/chat/ann-1", {"title": "x"}, "staff", 403),
        ("PATCH", "/conversations/chat/ann-1", {"title": "x"}, "viewer", 403),
        ("POST", "/conversations/chat/ann-1/read", {}, "viewer", 403),
        ("DELETE", "/conversations/chat/ann-1", None, "staff", 403),
        ("PATCH", "/conversations/chat/ann-1", {"title": ""}, "ann", 400),
        ("PATCH", "/conversations/chat/ann-1", {"title": 5}, "ann", 400),
        ("PATCH", "/conversations/chat/ann-1", {"owner": "bob"}, "ann", 400),
        ("PATCH", "/conversations/chat/ann-1", {"metadata": []}, "ann", 400),
        ("PATCH", "/conversations/chat/ann-1", {"title": "x", "archived": True, "metadata": []}, "ann", 400),
        ("PATCH", "/conversations/chat/ann-1", {"title": "x", "archived": 1}, "ann", 400),
        ("PATCH", "/conversations/chat/ann-1", {"metadata": {"x": "y" * 70_000}}, "ann", 400),
        ("PATCH", "/conversations/chat/ann-9", {"title": "x"}, "ann", 404),
        ("POST", "/conversations/chat/ann-1/read", {"messages": -1}, "ann", 400),
        ("POST", "/conversations/chat/ann-1/read", {"message": 1}, "ann", 400),
        ("POST", "/conversations/chat/ann-1/write", {}, "ann", 404),
        ("GET", "/conversations/nope/ann-1", None, "ann", 404),
        ("GET", "/conversations?kind=nope", None, "ann", 400),
        ("GET", "/conversations?status=nope", None, "ann", 400),
        ("GET", "/conversations?archived=2", None, "ann", 400),
        ("GET", "/conversations?scope=yours", None, "ann", 400),
        ("GET", "/conversations?limit=0", None, "ann", 400),
        ("GET", "/conversations?limit=9999999999999999999999", None, "ann", 400),
        ("GET", "/conversations?cursor=x", None, "ann", 400),
        ("GET", "/conversations?cursor=~", None, "ann", 400),
        ("GET", f"/conversations?cursor=~{'A' * 220}", None, "ann", 400),
        ("GET", "/conversations?cursor=~%C3%A4%00", None, "ann", 400),
        ("GET", "/conversations/chat/ann%00", None, "ann", 400),
        ("GET", "/conversations/chat/ann%2Fsub%2Fchat%2Fx/export", None, "ann", 400),
        ("DELETE", f"/conversations/chat/ann{'x' * 600}", None, "ann", 400),
        ("PATCH", "/conversations/chat/ann-1", {"metadata": nested(20)}, "ann", 400),
        ("PATCH", "/conversations/chat/ann-1", {"metadata": nested(500)}, "ann", 400),
        ("POST", "/conversations", {}, "ann", 405),
        ("GET", "/approvals/zzz", None, "ann", 400),
        ("POST", "/approvals/WyJ0aWxsL2FubiIsImsxIiwiZiJd", {"approved": True}, "ann", 404),
        ("GET", "/approvals/WyJ0aWxsL2FubiIsImsxIiwiZiJd", None, "ann", 404),
    ],
)
async def test_what_may_not_be_or_does_not_fit_is_refused(
    method: str, path: str, body: Any, who: str | None, status: int
) -> None:
    async with running() as (app, client):
        await said(app, "ann-1", "hello", "ann")
        response = await client.request(method, path, json=body, headers=user(who) if who else {})
        assert response.status_code == status, response.text
        assert response.text.startswith("unable to ")
        (kept,) = (await app.conversations.list()).conversations
        assert (kept.title, kept.metadata, kept.archived) == ("hello", {}, False)


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
async def test_cursors_that_clients_made_up_are_refused_or_find_nothing(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = {"memory": "memory:", "sqlite": str(tmp_path / "lists.db")}.get(store)
    async with running(where or request.getfixturevalue("postgres_url")) as (app, client):
        await said(app, "ann-1", "hello", "ann")
        for at, agent, call in (
            *((2**63, "chat/x", "k"), (-(10**30), "chat/x", "k"), (5, "chat/a\0", "k"), (5, "chat/a", "k\0")),
            *((-1, "", ""), (5, "x/sub//sub/", "'"), (5, "chat/ann-1", "k")),
        ):
            is_usable = abs(at) < 2**62 and "\0" not in f"{agent}{call}"
            for path in (
                f"/conversations?cursor={write_cursor(at, agent)}",
                f"/approvals?cursor={write_cursor(at, agent, call)}",
                f"/approvals?settled=1&cursor={write_cursor(at, agent, call)}",
                f"/approvals/{write_cursor(agent, call, 'f')}",
            ):
                response = await client.get(path, headers=user("ann"))
                allowed = (200, 404) if is_usable else (200, 400, 404)
                assert response.status_code in allowed, (path, response.text)


async def test_lists_need_to_know_who_asks() -> None:
    app = Everyword([Chat], store="memory:", authorize=lambda connecting: Principal("ann"))
    async with asyncio.timeout(PATIENCE), serving(app) as url, connect(url) as client:
        response = await client.get("/conversations")
        assert (response.status_code, "authenticate" in response.text) == (501, True)


async def test_a_local_app_without_access_control_lists_what_its_pages_asked() -> None:
    app = Everyword([Chat], store="memory:")
    async with asyncio.timeout(PATIENCE), serving(app) as url, connect(url) as client:
        messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}]
        await client.post("/agents/chat/one/chat", json={"messages": messages})
        (found,) = (await client.get("/conversations")).json()["conversations"]
        assert (found["name"], found["owner"], found["title"]) == ("one", "local", "hello")


@asynccontextmanager
async def live(client: httpx.AsyncClient, path: str, who: str) -> AsyncIterator[AsyncIterator[Any]]:
    headers = {**user(who), "accept": "text/event-stream"}
    async with client.stream("GET", path, headers=headers) as response:
        assert response.headers["content-type"] == "text/event-stream"

        async def events() -> AsyncIterator[Any]:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))

        yield events()


async def test_a_list_is_live() -> None:
    async with running() as (app, client):
        await said(app, "ann-1", "hello", "ann")
        async with live(client, "/conversations", "ann") as events:
            first = await anext(events)
            assert (first["type"], [each["name"] for each in first["conversations"]]) == ("list", ["ann-1"])
            await said(app, "bob-1", "hello", "bob")
            await client.patch("/conversations/chat/ann-1", headers=user("ann"), json={"title": "New"})
            change = await anext(events)
            assert (change["type"], change["conversation"]["title"]) == ("changed", "New")
            await client.delete("/conversations/chat/ann-1", headers=user("ann"))
            assert await anext(events) == {"type": "removed", "kind": "chat", "name": "ann-1"}


async def test_a_live_list_removes_what_its_client_may_not_see_any_more() -> None:
    """As in the guide: `authorize` asks for the owner."""

    async def owners(principal: Principal, action: str, kind: str, name: str) -> bool:
        found = await app.conversations.get(kind, name)
        return found is not None and found.owner == principal.id

    async with running(authorize=owners) as (app, client):
        for name in ("one", "two", "three"):
            await said(app, name, "hello", "ann")
        await said(app, "bobs", "hello", "bob")
        async with (
            live(client, "/conversations", "ann") as mine,
            live(client, "/conversations?scope=all", "ann") as all,
        ):
            for events in (mine, all):
                assert [each["name"] for each in (await anext(events))["conversations"]] == ["three", "two", "one"]
            await app.conversations.set_owner(Chat, "one", "bob")
            for events in (mine, all):
                assert await anext(events) == {"type": "removed", "kind": "chat", "name": "one"}
            await app.conversations.rename(Chat, "one", "Bob's now")
            await app.conversations.delete(Chat, "bobs")
            await app.conversations.delete(Chat, "two")
            for events in (mine, all):
                assert await anext(events) == {"type": "removed", "kind": "chat", "name": "two"}


@pytest.mark.parametrize("path", ["/conversations", "/conversations?query=secret", "/approvals"])
async def test_a_page_is_the_same_with_and_without_what_is_hidden(path: str) -> None:
    async with running(conversations=ConversationOptions(search=True)) as (app, client):
        query = f"{path}{'&' if '?' in path else '?'}scope=all&limit=2"

        async def page() -> tuple[list[str], str | None]:
            found = (await client.get(query, headers=user("ann"))).json()
            listed = found.get("conversations", found.get("approvals"))
            return [each["name"] for each in listed], found["cursor"]

        for name in ("ann-0", "bob-0", "ann-1", "bob-1", "ann-2"):
            await said(app, name, "the secret", name[:3], Till)
        before = await page()
        for name in ("bob-0", "bob-1"):
            await app.conversations.delete(Till, name)
        assert await page() == before


@pytest.mark.parametrize("path", ["/conversations", "/conversations?query=secret", "/approvals"])
async def test_a_cursor_tells_nothing_of_what_is_hidden(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible_pages, "MOST_LOOKED_AT", 10)
    monkeypatch.setattr(visible_pages, "AT_ONCE", 1)
    async with running(conversations=ConversationOptions(search=True)) as (app, client):
        await said(app, "ann-0", "the secret", "ann", Till)
        for number in range(25):
            await said(app, f"bob-{number}", "the secret", "bob", Till)
        await said(app, "ann-1", "the secret", "ann", Till)
        found, cursors, query = list[str](), list[str](), "scope=all&limit=1"
        while query:
            page = (await client.get(f"{path}{'&' if '?' in path else '?'}{query}", headers=user("ann"))).json()
            found += [each["name"] for each in page.get("conversations", page.get("approvals"))]
            cursors += [page["cursor"]] if page["cursor"] is not None else []
            query = f"scope=all&limit=1&cursor={page['cursor']}" if page["cursor"] is not None else ""
        assert sorted(found) == ["ann-0", "ann-1"]
        assert len(cursors) > 1
        for cursor in cursors:
            padded = cursor.removeprefix("~") + "=" * 3
            assert b"bob" not in base64.urlsafe_b64decode(padded)


async def test_all_nodes_of_a_store_open_a_sealed_cursor(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible_pages, "MOST_LOOKED_AT", 10)
    monkeypatch.setattr(visible_pages, "AT_ONCE", 1)
    path = "/conversations?scope=all&limit=1"
    async with running(postgres_url) as (app, client):
        await said(app, "ann-0", "hello", "ann")
        for number in range(10):
            await said(app, f"bob-{number}", "hello", "bob")
        first = (await client.get(path, headers=user("ann"))).json()
        assert first["conversations"] == []
    async with running(postgres_url) as (app, client):
        response = await client.get(f"{path}&cursor={first['cursor']}", headers=user("ann"))
        assert [each["name"] for each in response.json()["conversations"]] == ["ann-0"]
    async with running() as (app, client):  # another store
        response = await client.get(f"{path}&cursor={first['cursor']}", headers=user("ann"))
        assert (response.status_code, "first page" in response.text) == (400, True)


async def test_a_live_list_begins_with_a_full_page_though_much_is_hidden() -> None:
    async with running() as (app, client):
        await said(app, "ann-0", "hello", "ann")
        for number in range(3):
            await said(app, f"bob-{number}", "hello", "bob")
        async with live(client, "/conversations?scope=all&limit=2", "ann") as events:
            first = await anext(events)
            assert [each["name"] for each in first["conversations"]] == ["ann-0"]
            await client.delete("/conversations/chat/ann-0", headers=user("ann"))
            assert await anext(events) == {"type": "removed", "kind": "chat", "name": "ann-0"}


async def test_a_live_inbox_is_silent_about_calls_that_are_hidden() -> None:
    async with running() as (app, client), live(client, "/approvals?scope=all", "ann") as inbox:
        assert (await anext(inbox))["approvals"] == []
        async with live(client, "/approvals?scope=all", "staff") as seen:
            while not (await anext(seen))["approvals"]:
                await said(app, "bob-1", "pay", "bob", Till)
        await said(app, "ann-1", "pay", "ann", Till)
        assert [each["name"] for each in (await anext(inbox))["approvals"]] == ["ann-1"]


async def test_an_inbox_shows_what_waits_behind_many_calls_that_are_hidden() -> None:
    async with running() as (app, client):
        for number in range(3):
            await said(app, f"bob-{number}", "pay", "bob", Till)
        async with live(client, "/approvals?scope=all&limit=2", "ann") as inbox:
            assert (await anext(inbox))["approvals"] == []
            await said(app, "ann-1", "pay", "ann", Till)
            assert [each["name"] for each in (await anext(inbox))["approvals"]] == ["ann-1"]
        page = (await client.get("/approvals?scope=all&limit=2", headers=user("ann"))).json()
        assert ([each["name"] for each in page["approvals"]], page["cursor"]) == (["ann-1"], None)


async def test_a_client_that_may_not_see_a_conversation_is_not_shown_it_after_a_change() -> None:
    def authorize(principal: Principal, action: str, kind: str, name: str) -> bool:
        return action == "manage"

    async with running(authorize=authorize) as (app, client):
        await said(app, "ann-1", "the secret", "ann")
        response = await client.patch("/conversations/chat/ann-1", headers=user("bob"), json={"archived": True})
        assert (response.status_code, response.content) == (204, b"")
        (kept,) = (await app.conversations.list(archived=True)).conversations
        assert kept.title == "the secret"


async def test_a_change_is_one_event() -> None:
    async with running() as (app, client):
        await said(app, "ann-1", "hello", "ann")
        async with live(client, "/conversations", "ann") as events:
            await anext(events)
            body = {"title": "New", "archived": True, "metadata": {"a": 1}}
            await client.patch("/conversations/chat/ann-1", headers=user("ann"), json=body)
            change = (await anext(events))["conversation"]
            assert (change["title"], change["archived"], change["metadata"]) == ("New", True, {"a": 1})


async def test_a_search_finds_only_what_its_principal_may_read() -> None:
    def authorize(principal: Principal, action: str, kind: str, name: str) -> bool:
        return action == "list" or name.startswith(principal.id)

    async with running(authorize=authorize, conversations=ConversationOptions(search=True)) as (app, client):
        await said(app, "ann-1", "the secret word", "ann")
        assert await names(client, "bob", "scope=all") == ["ann-1"]
        assert await names(client, "bob", "scope=all&query=secret") == []
        assert await names(client, "ann", "scope=all&query=secret") == ["ann-1"]


async def test_unread_is_counted_for_who_asks_also_in_the_lists_of_everybody() -> None:
    async with running() as (app, client):
        await said(app, "ann-1", "hello", "ann")
        page = (await client.get("/conversations?scope=all", headers=user("staff"))).json()
        assert [each["unread"] for each in page["conversations"]] == [2]
        async with live(client, "/conversations?scope=all", "staff") as events:
            (first,) = (await anext(events))["conversations"]
            assert first["unread"] == 2
            await client.post("/conversations/chat/ann-1/read", headers=user("staff"), json={"messages": 1})
            assert (await anext(events))["conversation"]["unread"] == 1


@pytest.mark.parametrize(
    ("query", "expected"), [("", ["ann-2"]), ("archived=1", ["ann-1"]), ("archived=any", ["ann-2", "ann-1"])]
)
async def test_a_live_list_begins_with_the_conversations_that_are_asked_for(query: str, expected: list[str]) -> None:
    async with running() as (app, client):
        for name in ("ann-1", "ann-2"):
            await said(app, name, "hello", "ann")
        await client.patch("/conversations/chat/ann-1", headers=user("ann"), json={"archived": True})
        async with live(client, f"/conversations?{query}", "ann") as events:
            assert [each["name"] for each in (await anext(events))["conversations"]] == expected
            for archived, name in ((False, "ann-1"), (True, "ann-2")):  # changes are of all conversations
                await client.patch(f"/conversations/chat/{name}", headers=user("ann"), json={"archived": archived})
                change = (await anext(events))["conversation"]
                assert (change["name"], change["archived"]) == (name, archived)


@pytest.mark.parametrize("query", ["query=tea", "status=waiting", "cursor=x"])
async def test_a_live_list_refuses_what_it_does_not_do(query: str) -> None:
    async with running() as (_, client):
        headers = {**user("ann"), "accept": "text/event-stream"}
        response = await client.get(f"/conversations?{query}", headers=headers)
        assert (response.status_code, query.partition("=")[0] in response.text) == (400, True)


@pytest.mark.parametrize("path", ["/conversations", "/approvals"])
async def test_the_head_of_a_list_is_answered_and_keeps_no_stream(path: str) -> None:
    async with running() as (_, client):
        response = await client.head(path, headers={**user("ann"), "accept": "text/event-stream"})
        assert (response.status_code, response.headers["content-type"]) == (200, "application/json")


async def test_a_live_list_ends_when_the_server_stops_and_when_its_client_is_disconnected() -> None:
    async with running() as (app, client):
        async with live(client, "/conversations", "ann") as events:
            await anext(events)
            assert await app.disconnect(principal="ann") == 1
            with pytest.raises((StopAsyncIteration, httpx.RemoteProtocolError)):
                await anext(events)
        async with live(client, "/approvals", "ann") as events:
            await anext(events)
            await app.aclose()
            with pytest.raises((StopAsyncIteration, httpx.RemoteProtocolError)):
                await anext(events)


async def test_an_approval_is_answered_by_one_of_its_approvers() -> None:
    Till.paid = []
    async with running() as (app, client):
        async with live(client, "/approvals?scope=all", "boss") as inbox:
            assert (await anext(inbox))["approvals"] == []
            await said(app, "ann-1", "pay", "ann", Till)
            (waits,) = (await anext(inbox))["approvals"]
            assert (waits["tool"], waits["input"], waits["risk"]) == ("pay", {"amount": 5}, "high")
            assert waits["mayAnswer"] is True
            assert waits["toolCallId"] == "k1"
            path = f"/approvals/{waits['id']}"
            (mine,) = (await client.get("/approvals", headers=user("ann"))).json()["approvals"]
            assert mine["mayAnswer"] is False
            assert (await client.get("/approvals?scope=all", headers=user("bob"))).json()["approvals"] == []
            for who, status in (("ann", 403), ("staff", 403), ("bob", 404), ("viewer", 403)):
                response = await client.post(path, headers=user(who), json={"approved": True})
                assert response.status_code == status, response.text
            assert Till.paid == []
            bad = await client.post(path, headers=user("boss"), json={"approved": "yes"})
            assert bad.status_code == 400
            done = await client.post(path, headers=user("boss"), json={"approved": True, "reason": "fine"})
            assert done.json() == {"approved": True}
            assert (await anext(inbox))["approvals"] == []
        again = await client.post(path, headers=user("boss"), json={"approved": False})
        assert (again.status_code, again.text) == (409, "unable to answer; boss approved this call before\n")
        assert (await client.get(path, headers=user("bob"))).status_code == 404
        settled = (await client.get(path, headers=user("ann"))).json()
        assert (settled["status"], settled["settledBy"]["id"], "mayAnswer" in settled) == ("approved", "boss", False)
        await app.get(Till, "ann-1").wait_until_stable()
        assert Till.paid == [5]
        (record,) = (await client.get("/approvals?settled=1", headers=user("ann"))).json()["approvals"]
        assert (record["status"], record["settledBy"]["id"], record["reason"]) == ("approved", "boss", "fine")
        assert record["input"] == {"amount": 5}


async def test_a_browser_that_is_not_signed_in_gets_a_page_that_says_so() -> None:
    async with running() as (_, client):
        response = await client.get("/approvals/WyJ0aWxsL2FubiIsImsxIiwiZiJd", headers={"accept": "text/html"})
        assert (response.status_code, response.headers["content-type"]) == (401, "text/html; charset=utf-8")
        assert "Sign in to see this approval" in response.text
        assert "unable to" not in response.text.partition("<script")[0]
        bare = await client.get("/approvals/WyJ0aWxsL2FubiIsImsxIiwiZiJd")
        assert bare.headers["content-type"].startswith("text/plain")


async def test_the_page_of_a_mail_shows_the_call_and_does_nothing_by_itself() -> None:
    Till.paid = []
    async with running() as (app, client):
        await said(app, "ann-1", "pay", "ann", Till)
        (waits,) = (await app.approvals.list()).approvals
        headers = {**user("boss"), "accept": "text/html,*/*"}
        page = await client.get(f"/approvals/{waits.id}", headers=headers)
        assert page.headers["content-type"].startswith("text/html")
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert "Pay &lt;b&gt;now&lt;/b&gt;" in page.text
        assert "hidden" not in page.text.partition("<div")[2].partition(">")[0]
        others = await client.get(f"/approvals/{waits.id}", headers={**headers, **user("ann")})
        assert "<h1>This call waits for approval</h1>" in others.text
        assert "Only boss may approve" in others.text
        assert "hidden" in others.text.partition("<div")[2].partition(">")[0]
        assert Till.paid == []
        assert len((await app.approvals.list()).approvals) == 1
        await app.approvals.answer(waits.id, False, by=Principal("boss", name="<Boss>"), reason="no & no")
        settled = await client.get(f"/approvals/{waits.id}", headers=headers)
        for shown in ("This call was denied", "&lt;Boss&gt;", "no &amp; no"):
            assert shown in settled.text
        assert "hidden" in settled.text.partition("<div")[2].partition(">")[0]
        cut = await client.get(f"/approvals/{waits.id[:-3]}", headers=headers)
        assert (cut.status_code, "Nothing to approve" in cut.text) == (404, True)
        await app.conversations.delete(Till, "ann-1")
        gone = await client.get(f"/approvals/{waits.id}", headers=headers)
        assert (gone.status_code, "Nothing to approve" in gone.text) == (404, True)
        broken = await client.get("/approvals/half-a-link", headers=headers)  # as mail programs break them
        assert (broken.status_code, "Nothing to approve" in broken.text) == (404, True)
        assert (await client.get("/approvals/half-a-link", headers=user("boss"))).text.startswith("unable to use")


async def test_a_socket_obeys_the_approvers_too() -> None:
    Till.paid = []
    async with running() as (app, client):
        await said(app, "ann-1", "pay", "ann", Till)
        url = str(client.base_url)
        async with socket(url, "?user=ann", "ann-1", kind="till") as page:
            await page.send(type="cf_agent_tool_approval", toolCallId="k1", approved=True, autoContinue=True)
            await page.settled()
        assert len((await app.approvals.list()).approvals) == 1
        async with socket(url, "?user=boss", "ann-1", kind="till") as page:
            await page.send(type="cf_agent_tool_approval", toolCallId="k1", approved=True, autoContinue=True)
            await page.settled()
        await app.get(Till, "ann-1").wait_until_stable()
        assert Till.paid == [5]


async def test_an_authorize_with_a_fifth_parameter_decides_about_approvals() -> None:
    asked: list[tuple[str, str, str | None]] = []

    def authorize(principal: Principal, action: str, kind: str, name: str, approval: Approval | None) -> bool:
        asked.append((principal.id, action, approval.tool if approval is not None else None))
        return action != "answer" or (approval is not None and approval.owner == principal.id)

    Till.paid = []
    async with running(authorize=authorize) as (app, client):
        await said(app, "till", "pay", "ann", Till)
        (waits,) = (await app.approvals.list()).approvals
        path = f"/approvals/{waits.id}"
        assert (await client.post(path, headers=user("boss"), json={"approved": True})).status_code == 403
        assert (await client.post(path, headers=user("ann"), json={"approved": False})).status_code == 200
        assert ("ann", "answer", "pay") in asked


async def test_a_client_searches_its_own_conversations() -> None:
    async with running(conversations=ConversationOptions(search=True)) as (app, client):
        await said(app, "ann-1", "a refund for Berlin", "ann")
        await said(app, "ann-2", "Paris", "ann")
        await said(app, "bob-1", "a refund for Berlin", "bob")
        assert await names(client, "ann", "query=refund+berl") == ["ann-1"]
        assert await names(client, "ann", "query=refund&scope=all") == ["ann-1"]
        assert await names(client, "staff", "query=refund&scope=all&limit=1") == ["bob-1"]
        found = (await client.get("/conversations?query=berlin", headers=user("ann"))).json()["conversations"]
        assert [each["excerpt"] for each in found] == ["a refund for Berlin"]
        listed = (await client.get("/conversations", headers=user("ann"))).json()["conversations"]
        assert [each["excerpt"] for each in listed] == [None, None]
        for query, live, why in (
            ("query=", False, "no word"),
            ("query=%00%3F", False, "no word"),
            (f"query={'x' * 201}", False, "200 is the limit"),
            ("query=a+b+c+d+e+f+g+h+i", False, "8 is the limit"),
            ("query=berlin", True, "unable to watch a search"),
        ):
            headers = user("ann") | ({"accept": "text/event-stream"} if live else {})
            response = await client.get(f"/conversations?{query}", headers=headers)
            assert response.status_code == 400 and why in response.text


async def test_a_search_without_the_setting_is_refused_with_what_to_set() -> None:
    async with running() as (app, client):
        await said(app, "ann-1", "hello", "ann")
        response = await client.get("/conversations?query=hello", headers=user("ann"))
        assert response.status_code == 400
        assert "ConversationOptions(search=True)" in response.text
