"""`/shared/{token}`: what the holder of a token sees, until when, and what it cannot reach."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, ClassVar

import httpx
import pytest
from starlette.requests import HTTPConnection

from everyword import AIChatAgent, ChatError, Everyword, Limits, Principal
from everyword.core.commands import MoveLeaf, RemoveMessages, Submit
from everyword.ids import AgentId, MessageId, NodeId, RequestId
from everyword.messages.sse import SseParser
from everyword.runtime.records import read_record_with_head
from everyword.server import shared_views
from everyword.testing import Gate, ManualClock
from everyword.transcripts.document import LARGE, TranscriptMessage, is_large
from everyword.transcripts.live import LiveMessage, render
from tests.server.kit import PATIENCE, connect, serving

AGENT = AgentId("chat/ann-1")
SHARES = "/conversations/chat/ann-1/shares"


def by_header(connection: HTTPConnection) -> Principal | None:
    who = connection.headers.get("x-user")
    return Principal(who, name="SECRET-NAME", read_only=who == "ann-reads") if who else None


def own_names(principal: Principal, action: str, kind: str, name: str) -> bool:
    return name.startswith(principal.id.removesuffix("-reads"))


class Chat(AIChatAgent):
    initial_state: ClassVar[Any] = {"x": "SECRET-STATE"}
    gate: Gate | None = None

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        asked = next(each.text for each in reversed(self.messages) if each.role == "user")
        if asked == "fail":
            raise ChatError("too busy")
        if asked == "wait" and self.gate is not None:
            yield "so far"
            await self.gate.wait()
            yield " and on"
            return
        yield {"type": "reasoning-start", "id": "r"}
        yield {"type": "reasoning-delta", "id": "r", "delta": "SECRET-REASONING"}
        yield {"type": "reasoning-end", "id": "r"}
        yield {"type": "data-chart", "data": "SECRET-DATA"}
        yield {"type": "tool-input-available", "toolCallId": "SECRET-CALL", "toolName": "look", "input": "SECRET-INPUT"}
        yield {"type": "tool-output-available", "toolCallId": "SECRET-CALL", "output": "SECRET-OUTPUT"}
        yield {"type": "file", "mediaType": "image/png", "url": "/agents/chat/ann-1/attachments/SECRET-PATH"}
        yield f"You said: {asked} <script>alert(1)</script>"


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[tuple[Everyword, httpx.AsyncClient]]:
    given = {"authenticate": by_header, "authorize": own_names, **options}
    clock = given.pop("clock", None)
    app = Everyword([Chat], store="memory:", **given)
    app.clock = clock
    async with asyncio.timeout(PATIENCE), serving(app) as url, connect(url) as client:
        await app.start()
        await say(app, "hello")
        yield app, client


async def say(app: Everyword, text: str) -> None:
    await app.get(Chat, "ann-1").for_principal(Principal("ann", name="SECRET-NAME")).save_messages(text)


async def path_of(app: Everyword, **options: Any) -> str:
    path = (await app.shares.create(Chat, "ann-1", **options)).path
    assert path is not None
    return path


async def ask_again(app: Everyword, message: str, text: str) -> None:
    question = {"id": message, "role": "user", "parts": [{"type": "text", "text": text}]}
    async with (await app.service()).directory.attach(AGENT) as loaded:
        await loaded.actor.ask(Submit(RequestId(f"r-{text}"), MessageId(f"a-{text}"), (question,)))
    assert await app.get(Chat, "ann-1").wait_until_stable(PATIENCE)


def without_nonce(page: str) -> str:
    """Return a page without its random part, which may have any letters."""
    return re.sub(r'nonce="[^"]+"', "", page)


class Follower:
    """A page that follows a link, and the changes that it was told."""

    def __init__(self, response: httpx.Response) -> None:
        self.response, self.said = response, ""

    async def until(self, text: str) -> None:
        while text not in self.said:
            self.said += json.dumps(await anext(self._changes()))

    async def rest(self) -> None:
        async for change in self._changes():
            self.said += json.dumps(change)

    async def _read(self) -> AsyncIterator[Any]:
        parser = SseParser()
        async for data in self.response.aiter_bytes():
            for event in parser.feed(data):
                for change in json.loads(event.data):
                    yield change

    def _changes(self) -> AsyncIterator[Any]:
        if not hasattr(self, "_reading"):
            self._reading = self._read()
        return self._reading


@asynccontextmanager
async def following(client: httpx.AsyncClient, path: str) -> AsyncIterator[Follower]:
    async with client.stream("GET", f"{path}/stream") as response:
        assert response.status_code == 200, (await response.aread()).decode()
        yield Follower(response)


# -- what is shown ----------------------------------------------------------------------------------------------------


async def test_a_page_shows_the_conversation_and_may_do_nothing_else() -> None:
    async with running() as (app, client):
        page = await client.get(await path_of(app))
        assert page.status_code == 200
        assert "You said: hello &lt;script&gt;" in page.text
        assert page.text.count("<script") == 1
        headers = page.headers
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-robots-tag"] == "noindex, nofollow"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        policy = headers["content-security-policy"]
        nonce = policy.partition("script-src 'nonce-")[2].partition("'")[0]
        assert len(nonce) >= 20 and f'nonce="{nonce}"' in page.text
        assert policy.startswith("default-src 'none'") and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy


@pytest.mark.parametrize("frozen", [True, False])
async def test_nothing_is_shown_that_the_link_does_not_cover(frozen: bool) -> None:
    async with running() as (app, client):
        path = await path_of(app, frozen=frozen, label="SECRET-LABEL")
        shown = [(await client.get(path)).text, (await client.get(f"{path}.json")).text]
        if not frozen:
            async with following(client, path) as page:
                await page.until("You said")
                shown.append(page.said)
        for text in map(without_nonce, shown):
            assert "You said: hello" in text and "look" in text
            assert "SECRET" not in text and "ann" not in text.lower().replace("cannot", "")


async def test_the_link_says_what_else_is_shown() -> None:
    async with running() as (app, client):
        path = await path_of(app, reasoning=True, tools="all", data=True, people=True)
        for text in ((await client.get(path)).text, (await client.get(f"{path}.json")).text):
            for shown in ("REASONING", "INPUT", "OUTPUT", "DATA", "NAME"):
                assert f"SECRET-{shown}" in text
            assert "SECRET-PATH" not in text and "SECRET-STATE" not in text
        no_tools = (await client.get(await path_of(app, tools="none"))).text
        assert "look" not in no_tools


async def test_a_program_gets_json() -> None:
    async with running() as (app, client):
        path = await path_of(app)
        by_name, by_header = (
            await client.get(f"{path}.json"),
            await client.get(path, headers={"accept": "application/json"}),
        )
        for response in (by_name, by_header):
            assert response.headers["content-type"] == "application/json"
            said = response.json()
            assert (said["format"], [each["role"] for each in said["messages"]]) == (
                "everyword-transcript",
                ["user", "assistant"],
            )
            assert sorted(said["conversation"]) == ["createdAt", "title", "updatedAt", "writtenAt"]


async def test_a_frozen_link_shows_the_conversation_as_it_was() -> None:
    async with running() as (app, client):
        await ask_again(app, "u", "cats")
        path = await path_of(app)
        before = (await client.get(f"{path}.json")).json()
        await ask_again(app, "u", "dogs")  # an edit: another branch is shown to clients
        await say(app, "later")
        await app.conversations.rename(Chat, "ann-1", "Another title")
        after = (await client.get(f"{path}.json")).json()
        assert (after["messages"], after["conversation"]["title"]) == (
            before["messages"],
            before["conversation"]["title"],
        )
        page = (await client.get(path)).text
        assert "cats" in page and "dogs" not in page and "later" not in page and "Another title" not in page


async def test_a_frozen_link_shows_a_replaced_message_as_it_was_and_no_removed_one() -> None:
    async with running() as (app, client):
        path = await path_of(app)
        chat = app.get(Chat, "ann-1")
        messages = await chat.get_messages()
        messages[1].parts = [{"type": "text", "text": "replaced"}]
        await chat.persist_messages(messages)
        assert "replaced" in (await client.get(await path_of(app))).text
        shown = (await client.get(path)).text
        assert "You said: hello" in shown and "replaced" not in shown
        async with (await app.service()).directory.attach(AGENT) as loaded:
            node = await loaded.actor.inspect(lambda state: state.tree.leaf)
            await loaded.actor.ask(RemoveMessages([node]))
        shown = (await client.get(path)).text
        assert "You said" not in shown and "hello" in shown


@pytest.mark.parametrize("frozen", [True, False])
async def test_the_title_is_the_first_question_that_readers_see(frozen: bool) -> None:
    async with running() as (app, client):
        (first, _) = await app.get(Chat, "ann-1").get_messages()
        await ask_again(app, first.id, "other words")
        path = await path_of(app, frozen=frozen)
        for form in ("", ".json"):
            shown = (await client.get(f"{path}{form}")).text
            assert "other words" in shown and "hello" not in shown, "the title is not that of another branch"
        async with (await app.service()).directory.attach(AGENT) as loaded:
            node = await loaded.actor.inspect(lambda state: state.tree.active_path()[0])
            await loaded.actor.ask(RemoveMessages([node]))
        shown = (await client.get(f"{path}.json")).json()
        assert shown["conversation"]["title"] == "Conversation", "nor that of a removed message"


async def test_an_open_page_follows_the_title() -> None:
    async with running() as (app, client):
        path = await path_of(app, frozen=False, people=True)
        async with following(client, path) as page:
            await page.until("Owner: ann")
            assert '"title": "hello"' in page.said
            await app.conversations.rename(Chat, "ann-1", "About <cats>")
            await page.until('"title": "About <cats>"')


async def test_an_answer_that_was_being_written_is_not_on_a_frozen_link() -> None:
    async with running() as (app, client):
        Chat.gate = Gate()
        asking = asyncio.ensure_future(say(app, "wait"))
        await Chat.gate.reached.wait()
        path = await path_of(app)
        said = (await client.get(f"{path}.json")).json()
        Chat.gate.open()
        await asking
        assert (await client.get(f"{path}.json")).json()["messages"] == said["messages"]
        assert [each["role"] for each in said["messages"]] == ["user", "assistant", "user"]


# -- live -------------------------------------------------------------------------------------------------------------


async def test_a_live_link_shows_an_answer_while_it_is_written() -> None:
    async with running() as (app, client):
        path = await path_of(app, frozen=False)
        Chat.gate = Gate()
        asking = asyncio.ensure_future(say(app, "wait"))
        await Chat.gate.reached.wait()
        async with following(client, path) as early, following(client, path) as late:
            await early.until("so far")
            await late.until("so far")
            Chat.gate.open()
            await asking
            for page in (early, late):
                await page.until("and on")
            await say(app, "fail")
            await early.until("too busy")
        assert "You said: hello" in early.said and "SECRET" not in early.said


async def test_a_live_link_shows_the_branch_that_clients_see() -> None:
    async with running() as (app, client):
        await ask_again(app, "u", "cats")
        path = await path_of(app, frozen=False)
        async with following(client, path) as page:
            await page.until("You said: cats")
            await ask_again(app, "u", "dogs")
            await page.until("You said: dogs")
            shown = (await client.get(path)).text
            assert "dogs" in shown and "cats" not in shown
            async with (await app.service()).directory.attach(AGENT) as loaded:
                cats = await loaded.actor.inspect(lambda state: state.tree.node_of_message(MessageId("a-cats")))
                await loaded.actor.ask(MoveLeaf(cats))
            page.said = ""
            await page.until("You said: cats")
            assert "dogs" not in page.said


async def test_pages_of_a_frozen_link_that_are_open_keep_no_reader_out() -> None:
    async with running(limits=Limits(shared_readers=1)) as (app, client):
        path = await path_of(app)
        async with client.stream("GET", f"{path}/stream") as followed:
            assert followed.status_code == 200
            assert (await client.get(f"{path}/stream")).status_code == 429, "that page is not told of the end"
            assert (await client.get(path)).status_code == 200


# -- the end of a link ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("how", ["revoke", "clear", "destroy"])
async def test_an_open_page_is_told_that_its_link_is_over(how: str, frozen: bool) -> None:
    async with running() as (app, client):
        share = await app.shares.create(Chat, "ann-1", frozen=frozen)
        path = share.path or ""
        async with following(client, path) as page:
            if frozen:
                await say(app, "later")
            else:
                await page.until("You said: hello")
            if how == "revoke":
                assert await app.shares.revoke(Chat, "ann-1", share.id)
            elif how == "clear":
                await app.get(Chat, "ann-1").clear_history()
            else:
                await app.conversations.delete(Chat, "ann-1")
            await page.rest()
            assert '"type": "over"' in page.said
            assert not frozen or "later" not in page.said, "a frozen page is told nothing else"
        for form in ("", ".json", "/stream"):
            response = await client.get(f"{path}{form}")
            assert response.status_code == 404
            assert "hello" not in response.text


@pytest.mark.parametrize("frozen", [False, True])
async def test_a_link_that_expires_closes_open_pages(frozen: bool) -> None:
    clock = ManualClock()
    async with running(clock=clock) as (app, client):
        path = await path_of(app, frozen=frozen, expires=timedelta(minutes=5))
        async with following(client, path) as page:
            if not frozen:
                await page.until("You said: hello")
            clock.advance(timedelta(minutes=5))
            with pytest.raises(httpx.RemoteProtocolError):  # cut off: the page asks again, and is refused
                await page.rest()
        for form in ("", ".json", "/stream"):
            response = await client.get(f"{path}{form}")
            assert response.status_code == 410
            assert "its time is over" in response.text and "hello" not in response.text


async def test_an_open_page_shows_no_words_of_a_person_that_was_erased() -> None:
    async with running() as (app, client):
        await app.get(Chat, "ann-1").for_principal(Principal("bob", name="SECRET-BOB")).save_messages("my words")
        path = await path_of(app, frozen=False, people=True)
        async with following(client, path) as page:
            await page.until("You said: my words")
            assert (await app.principals.erase("bob", answers=True)).is_complete
            await page.until("This message was deleted.")
            await page.until("erased-")
            async with following(client, path) as fresh:  # beside it, from the same rendering
                await fresh.until("erased-")
                assert "BOB" not in fresh.said and "my words" not in fresh.said


async def test_a_page_that_is_opened_during_an_erasure_shows_no_words_of_the_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as (app, client):
        await app.get(Chat, "ann-1").for_principal(Principal("bob")).save_messages("my words")
        path = await path_of(app, frozen=False)
        is_erased = False

        async def read(*given: Any) -> Any:
            nonlocal is_erased
            found = await read_record_with_head(*given)
            if not is_erased:  # the log is rewritten right after it was read
                is_erased = True
                assert (await app.principals.erase("bob", answers=True)).is_complete
            return found

        monkeypatch.setattr("everyword.server.shared_feed.read_record_with_head", read)
        async with following(client, path) as page:
            await page.until("This message was deleted.")
            assert "my words" not in page.said


# -- who may share ----------------------------------------------------------------------------------------------------


async def test_a_client_creates_lists_and_revokes_links() -> None:
    async with running(clock=ManualClock()) as (_, client):
        ann = {"x-user": "ann"}
        made = await client.post(SHARES, headers=ann, json={"frozen": False, "expiresIn": 60, "label": "for Bob"})
        assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
        link = made.json()
        assert link["path"] == f"/shared/{link['token']}"
        assert (await client.get(link["path"])).status_code == 200
        (listed,) = (await client.get(SHARES, headers=ann)).json()["shares"]
        assert "token" not in listed and "path" not in listed
        assert (listed["id"], listed["label"], listed["createdBy"]["id"]) == (link["id"], "for Bob", "ann")
        assert listed["expiresAt"] == listed["createdAt"] + 60_000
        assert (await client.delete(f"{SHARES}/{link['id']}", headers=ann)).status_code == 204
        assert (await client.delete(f"{SHARES}/{link['id']}", headers=ann)).status_code == 404
        assert (await client.get(link["path"])).status_code == 404


async def test_only_clients_that_may_share_do() -> None:
    async with running() as (_, client):
        for who, status in (("bob", 403), ("ann-reads", 403), ("", 401)):
            headers = {"x-user": who} if who else {}
            assert (await client.post(SHARES, headers=headers, json={})).status_code == status
            assert (await client.get(SHARES, headers=headers)).status_code == status
            assert (await client.delete(f"{SHARES}/x", headers=headers)).status_code == status


@pytest.mark.parametrize(
    "body",
    [
        {"frozen": 1},
        {"expiresIn": "1"},
        {"expiresIn": True},
        {"expiresIn": -1},
        {"expiresIn": 1e300},
        {"tools": "some"},
        {"token": "mine"},
        {"label": "x" * 201},
        {"by": "ann"},
        [],
    ],
)
async def test_a_request_for_a_link_that_is_not_valid_is_refused(body: Any) -> None:
    async with running() as (app, client):
        assert (await client.post(SHARES, headers={"x-user": "ann"}, json=body)).status_code == 400
        assert await app.shares.list(Chat, "ann-1") == []


# -- attacks ----------------------------------------------------------------------------------------------------------


async def test_a_token_opens_nothing_but_its_page() -> None:
    async with running() as (app, client):
        path = await path_of(app, frozen=False)
        token = path.rpartition("/")[2]
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert (await client.request(method, path)).status_code == 405
        for other in ("/events", "/chat", "/state", "/../../agents/chat/ann-1/get-messages", "/stream/x", ".html"):
            assert (await client.get(f"{path}{other}")).status_code in (401, 404)
        for place in (
            f"/shared/{token[:-1]}",
            f"/shared/{token}x",
            f"/shared/{token.swapcase()}",
            "/shared/",
            "/shared",
        ):
            assert (await client.get(place)).status_code in (401, 404)
        for headers in ({"authorization": f"Bearer {token}"}, {"x-user": token}):
            for place in ("/agents/chat/ann-1/get-messages", SHARES, "/conversations"):
                answer = await client.get(place, headers=headers)
                assert answer.status_code in (401, 403) or answer.json() == {"conversations": [], "cursor": None}


async def test_odd_paths_are_not_found() -> None:
    async with running() as (_, client):
        for rest in ("%00", "a" * 5000, "..%2f..%2fagents", "%ff%fe", "x/y/z", ".json", "/stream", "stream"):
            assert (await client.get(f"/shared/{rest}")).status_code == 404


async def test_tokens_and_names_are_not_logged_or_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(limits=Limits(shared_readers=1)) as (app, client):
        path = await path_of(app, frozen=False)
        token = path.rpartition("/")[2]
        async with following(client, path) as page:
            await page.until("You said")
            refused = await client.get(f"{path}/stream")
            assert refused.status_code == 429 and "ann" not in refused.text
            assert int(refused.headers["retry-after"]) > 0
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("everyword")]
    assert all(token not in line for line in ours)


@pytest.mark.parametrize("form", ["", "/stream"])
async def test_a_large_message_is_written_while_others_are_served(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, others = asyncio.get_running_loop(), threading.Event()

    def rendered(node: NodeId, message: TranscriptMessage, before: LiveMessage | None = None) -> LiveMessage:
        if is_large(message):
            loop.call_soon_threadsafe(others.set)
            assert others.wait(PATIENCE), "what writes the message holds up the others"
        return render(node, message, before)

    async with running() as (app, client):
        await say(app, "x" * (LARGE + 1))
        path = await path_of(app, frozen=not form)
        monkeypatch.setattr(shared_views, "render", rendered)
        async with client.stream("GET", path + form) as response:
            async for text in response.aiter_text():
                if "You said: xxx" in text:
                    break
        assert others.is_set()


async def test_requests_for_one_link_are_limited() -> None:
    async with running(limits=Limits(shared_views_per_minute=3)) as (app, client):
        path, other = await path_of(app), await path_of(app)
        assert [(await client.get(path)).status_code for _ in range(5)] == [200, 200, 200, 429, 429]
        assert (await client.get(other)).status_code == 200


async def test_without_authorize_only_this_machine_may_read() -> None:
    async with running(authenticate=None, authorize=None) as (app, client):
        path = await path_of(app)
        assert (await client.get(path)).status_code == 200
        assert (await client.get(path, headers={"x-forwarded-for": "203.0.113.9"})).status_code == 403


async def test_without_authenticate_links_are_created_in_python_only() -> None:
    async with running(authenticate=None, authorize=lambda *asked: True) as (app, client):
        refused = await client.post(SHARES, json={})
        assert (refused.status_code, "unable to answer; this app has no `authenticate" in refused.text) == (501, True)
        assert (await client.get(await path_of(app))).status_code == 200


async def test_a_link_of_a_class_that_is_not_served_any_more_is_not_found() -> None:
    async with running() as (app, client):
        path = await path_of(app)
        del app._served["chat"]
        assert (await client.get(path)).status_code == 404
