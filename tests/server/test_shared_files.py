"""`/shared/{token}/files/{sha256}`: photos and other files of a shared link, and no others."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from everyword import AIChatAgent, Everyword, Limits, Principal, UIMessage
from everyword.core.commands import RemoveMessages, Submit
from everyword.ids import AgentId, MessageId, RequestId
from everyword.server.attachment_resources import ASKED_EVERY
from everyword.testing import Gate, ManualClock
from tests.server.kit import PATIENCE, connect, serving
from tests.server.test_shared_pages import by_header, following, own_names

AGENT = AgentId("album/ann-1")
PNG = b"\x89PNG\r\n\x1a\n"
PHOTO, MADE, HIDDEN, LATER = (PNG + each for each in (b"a photo", b"made", b"hidden", b"later"))
PDF, PAGE = b"%PDF-1.7 a paper", b"<script>alert(1)</script>"


def named(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Album(AIChatAgent):
    gate: Gate | None = None

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        if self.messages[-1].text == "wait" and self.gate is not None:
            yield await self.attachments.put(LATER, "image/png")
            await self.gate.wait()
            return
        secret = await self.attachments.put(HIDDEN, "image/png", filename="SECRET.png")
        yield {"type": "tool-input-available", "toolCallId": "c", "toolName": "draw", "input": {}}
        yield {"type": "tool-output-available", "toolCallId": "c", "output": {"drawn": [secret, f"at {secret['url']}"]}}
        yield await self.attachments.put(MADE, "image/png", filename="made.png")
        yield f"You said: {self.messages[-1].text}"


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[tuple[Everyword, httpx.AsyncClient]]:
    given = {"authenticate": by_header, "authorize": own_names, **options}
    clock = given.pop("clock", None)
    app = Everyword([Album], store="memory:", **given)
    app.clock = clock
    async with asyncio.timeout(PATIENCE), serving(app) as url, connect(url) as client:
        await app.start()
        await ask(app, "hello", PHOTO)
        yield app, client


async def ask(app: Everyword, text: str, *contents: bytes, media_type: str = "image/png", by: str = "ann") -> None:
    files = await app.attachments.of(Album, "ann-1")
    parts = [await files.put(each, media_type, filename=f"{text}.file") for each in contents]
    asked = UIMessage(f"u-{text}", "user", [{"type": "text", "text": text}, *parts])
    await app.get(Album, "ann-1").for_principal(Principal(by)).save_messages([asked])


async def path_of(app: Everyword, **options: Any) -> str:
    path = (await app.shares.create(Album, "ann-1", **options)).path
    assert path is not None
    return path


async def status(client: httpx.AsyncClient, path: str, content: bytes) -> int:
    return (await client.get(f"{path}/files/{named(content)}")).status_code


def linked(page: str) -> list[str]:
    """Return the hashes of the files that a page has."""
    return list(dict.fromkeys(re.findall(r"/files/([0-9a-f]{64})", page)))


# -- what is shown ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [True, False])
async def test_photos_are_on_the_page_in_json_and_live_and_can_be_read(frozen: bool) -> None:
    async with running() as (app, client):
        path = await path_of(app, frozen=frozen)
        page, said = await client.get(path), (await client.get(f"{path}.json")).json()
        assert "img-src 'self' data:;" in page.headers["content-security-policy"]
        assert linked(page.text) == [named(PHOTO), named(MADE)] and page.text.count("<img ") == 2
        files = [part for each in said["messages"] for part in each["parts"] if part["type"] == "file"]
        assert [each.get("name") for each in files] == ["hello.file", None]
        shown = [page.text, json.dumps(said)]
        if not frozen:
            async with following(client, path) as follower:
                await follower.until(named(MADE))
                shown.append(follower.said)
        for text in shown:
            assert "ann-1" not in text and "/agents" not in text and "SECRET" not in text and named(HIDDEN) not in text
        for base in (page.url, httpx.URL(f"{page.url}.json")):
            for part, content in zip(files, (PHOTO, MADE), strict=True):
                read = await client.get(base.join(part["url"]))
                assert (read.status_code, read.content, read.headers["content-type"]) == (200, content, "image/png")


async def test_a_file_is_served_with_safe_headers_and_never_kept_without_asking() -> None:
    async with running() as (app, client):
        url = f"{await path_of(app)}/files/{named(PHOTO)}"
        read = await client.get(url)
        assert read.headers["content-disposition"] == "inline"
        assert read.headers["cache-control"] == "private, no-cache"
        assert read.headers["x-content-type-options"] == "nosniff"
        assert read.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert read.headers["cross-origin-resource-policy"] == "same-origin"
        assert (read.headers["referrer-policy"], read.headers["x-robots-tag"]) == ("no-referrer", "noindex, nofollow")
        assert (await client.get(url, headers={"if-none-match": read.headers["etag"]})).status_code == 304
        part = await client.get(url, headers={"range": "bytes=1-3"})
        assert (part.status_code, part.content) == (206, PHOTO[1:4])
        head = await client.head(url)
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(PHOTO)))
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert (await client.request(method, url)).status_code == 405


async def test_other_files_are_downloads_whatever_they_are_called() -> None:
    async with running() as (app, client):
        await ask(app, "paper", PDF, media_type="application/pdf")
        await ask(app, "page", PAGE, media_type="text/html")
        path = await path_of(app)
        text = (await client.get(path)).text
        assert text.count('<a download="') == 2 and 'download="paper.file"' in text
        for content, media_type in ((PDF, "application/pdf"), (PAGE, "application/octet-stream")):
            read = await client.get(f"{path}/files/{named(content)}")
            assert (read.content, read.headers["content-type"]) == (content, media_type)
            assert read.headers["content-disposition"] == "attachment"


async def test_a_mounted_app_serves_files_below_its_own_path() -> None:
    app = Everyword([Album], store="memory:", authenticate=by_header, authorize=own_names)
    async with asyncio.timeout(PATIENCE), serving(Starlette(routes=[Mount("/in/here", app)])) as url:
        async with app, connect(url) as client:
            await ask(app, "hello", PHOTO)
            page = await client.get(f"/in/here{await path_of(app)}")
            (source, _) = re.findall(r'<img [^>]*src="([^"]+)"', page.text)
            assert (await client.get(page.url.join(source))).content == PHOTO


# -- what is not shown ------------------------------------------------------------------------------------------------


async def test_only_files_that_the_page_shows_are_served() -> None:
    async with running() as (app, client):
        await app.get(Album, "other").save_messages("hello")
        await (await app.attachments.of(Album, "other")).put(LATER, "image/png")
        await (await app.attachments.of(Album, "ann-1")).put(PDF, "application/pdf")  # in no message
        for path in (await path_of(app), await path_of(app, frozen=False)):
            assert [await status(client, path, each) for each in (PHOTO, MADE)] == [200, 200]
            for content in (HIDDEN, PDF, LATER, b"never stored"):
                refused = await client.get(f"{path}/files/{named(content)}")
                assert (refused.status_code, refused.text) == (404, "This link shows no such file.\n")
            for odd in ("/files/", "/files/x", f"/files/{named(PHOTO)}/x", f"/files/{named(PHOTO).upper()}", "/files"):
                assert (await client.get(f"{path}{odd}")).status_code == 404


async def test_the_output_of_a_tool_names_no_agent_and_its_files_are_shown_with_it() -> None:
    async with running() as (app, client):
        path = await path_of(app, tools="all")
        said = (await client.get(f"{path}.json")).text
        token = path.rpartition("/")[2]
        assert f'"url":"{token}/files/{named(HIDDEN)}"' in said and "ann-1" not in said and "/agents" not in said
        assert f"at {token}/files/{named(HIDDEN)}" in said
        assert await status(client, path, HIDDEN) == 200
        bare = await path_of(app, tools="all", files=False)
        said = (await client.get(f"{bare}.json")).text
        assert f'"attachments/{named(HIDDEN)}"' in said and "ann-1" not in said
        assert await status(client, bare, HIDDEN) == 404


async def test_a_source_that_is_an_attachment_names_no_agent() -> None:
    async with running() as (app, client):
        photo = await (await app.attachments.of(Album, "ann-1")).put(PHOTO, "image/png")
        cited = {"type": "source-url", "sourceId": "s", "url": photo["url"]}
        await app.get(Album, "ann-1").persist_messages([UIMessage("a-cited", "assistant", [cited])])
        for options in ({}, {"files": False}):
            said = (await client.get(f"{await path_of(app, **options)}.json")).text
            assert '{"type":"source","title":"Source"}' in said and "ann-1" not in said


async def test_a_link_without_files_shows_neither_files_nor_their_names() -> None:
    async with running() as (app, client):
        made = await client.post(
            "/conversations/album/ann-1/shares", headers={"x-user": "ann"}, json={"files": False, "frozen": False}
        )
        path = made.json()["path"]
        assert made.json()["files"] is False
        for text in ((await client.get(path)).text, (await client.get(f"{path}.json")).text):
            assert "You said: hello" in text and "made.png" not in text and "hello.file" not in text
            assert linked(text) == []
        assert [await status(client, path, each) for each in (PHOTO, MADE)] == [404, 404]
        (listed,) = await app.shares.list(Album, "ann-1")
        assert listed.files is False


async def test_a_frozen_link_serves_no_later_photo_and_none_of_another_branch() -> None:
    async with running() as (app, client):
        frozen, live = await path_of(app), await path_of(app, frozen=False)
        await ask(app, "later", LATER)
        assert [await status(client, each, LATER) for each in (frozen, live)] == [404, 200]
        await app.get(Album, "ann-1").save_messages("go on")
        files = await app.attachments.of(Album, "ann-1")
        other = {"id": "u-later", "role": "user", "parts": [await files.put(PDF, "application/pdf")]}
        await _edit(app, other)
        assert [await status(client, live, each) for each in (LATER, PDF, PHOTO)] == [404, 200, 200]
        assert [await status(client, frozen, each) for each in (LATER, PDF, PHOTO)] == [404, 404, 200]


async def _edit(app: Everyword, message: dict[str, Any]) -> None:
    async with (await app.service()).directory.attach(AGENT) as loaded:
        await loaded.actor.ask(Submit(RequestId("edit"), MessageId("a-edit"), (message,)))
    assert await app.get(Album, "ann-1").wait_until_stable(PATIENCE)


async def test_a_live_link_serves_a_photo_while_its_answer_is_written() -> None:
    async with running() as (app, client):
        frozen, live = await path_of(app), await path_of(app, frozen=False)
        assert await status(client, live, LATER) == 404
        Album.gate = Gate()
        asking = asyncio.ensure_future(ask(app, "wait"))
        async with following(client, live) as page:
            await page.until(named(LATER))
        assert [await status(client, each, LATER) for each in (live, frozen)] == [200, 404]
        assert await status(client, await path_of(app), LATER) == 404, "the answer had not ended"
        Album.gate.open()
        await asking


# -- the end ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("how", ["revoke", "clear", "destroy", "expire"])
async def test_files_are_refused_as_the_page_is(how: str, frozen: bool) -> None:
    clock = ManualClock()
    async with running(clock=clock) as (app, client):
        share = await app.shares.create(Album, "ann-1", frozen=frozen, expires=timedelta(minutes=5))
        path = share.path or ""
        read = await client.get(f"{path}/files/{named(PHOTO)}")
        assert read.status_code == 200
        if how == "revoke":
            assert await app.shares.revoke(Album, "ann-1", share.id)
        elif how == "clear":
            await app.get(Album, "ann-1").clear_history()
        elif how == "destroy":
            await app.conversations.delete(Album, "ann-1")
            await ask(app, "hello", PHOTO)  # the same name and the same photo, in another conversation
        else:
            clock.advance(timedelta(minutes=5))
        for headers in ({}, {"if-none-match": read.headers["etag"]}, {"range": "bytes=0-1"}):
            refused = await client.get(f"{path}/files/{named(PHOTO)}", headers=headers)
            assert refused.status_code == (410 if how == "expire" else 404)


@pytest.mark.parametrize("frozen", [True, False])
async def test_the_photo_of_a_removed_message_is_not_served(frozen: bool) -> None:
    async with running() as (app, client):
        await ask(app, "later", LATER)
        path = await path_of(app, frozen=frozen)
        assert await status(client, path, LATER) == 200
        async with (await app.service()).directory.attach(AGENT) as loaded:
            node = await loaded.actor.inspect(lambda state: state.tree.node_of_message(MessageId("u-later")))
            await loaded.actor.ask(RemoveMessages([node]))
        assert [await status(client, path, each) for each in (LATER, PHOTO)] == [404, 200]
        assert named(LATER) not in (await client.get(path)).text


async def test_a_photo_of_an_erased_person_is_not_served_for_long() -> None:
    clock = ManualClock()
    async with running(clock=clock) as (app, client):
        await ask(app, "bob", LATER, by="bob")
        await ask(app, "gone", LATER, by="ann")  # keeps the content
        path = await path_of(app)
        async with (await app.service()).directory.attach(AGENT) as loaded:
            node = await loaded.actor.inspect(lambda state: state.tree.node_of_message(MessageId("u-gone")))
            await loaded.actor.ask(RemoveMessages([node]))
        assert await status(client, path, LATER) == 200
        assert (await app.principals.erase("bob")).is_complete
        clock.advance(timedelta(seconds=10))
        assert await status(client, path, LATER) == 404


async def test_a_download_is_cut_off_when_its_link_is_revoked() -> None:
    async with running() as (app, client):
        large = PNG + bytes(24 * ASKED_EVERY)
        await ask(app, "large", large)
        share = await app.shares.create(Album, "ann-1", frozen=False)
        async with client.stream("GET", f"{share.path}/files/{named(large)}") as response:
            assert response.status_code == 200
            pieces = response.aiter_raw()
            received = len(await anext(pieces))
            assert await app.shares.revoke(Album, "ann-1", share.id)
            with pytest.raises(httpx.RemoteProtocolError):
                received += sum([len(piece) async for piece in pieces])
        assert received < len(large)


# -- limits -----------------------------------------------------------------------------------------------------------


async def test_a_page_with_fifty_photos_does_not_use_up_the_views_of_its_link() -> None:
    async with running(limits=Limits(shared_views_per_minute=2)) as (app, client):
        contents = [PNG + bytes([number]) for number in range(50)]
        await ask(app, "fifty", *contents)
        path = await path_of(app)
        assert len(linked((await client.get(path)).text)) == 52
        assert {await status(client, path, each) for each in contents} == {200}
        assert [(await client.get(path)).status_code for _ in range(2)] == [200, 429]
        assert await status(client, path, PHOTO) == 200


async def test_requests_for_the_files_of_one_link_are_limited() -> None:
    async with running(limits=Limits(shared_files_per_minute=2)) as (app, client):
        path = await path_of(app)
        assert [await status(client, path, PHOTO) for _ in range(4)] == [200, 200, 429, 429]
        assert (await client.get(path)).status_code == 200


async def test_fifty_photos_read_the_log_once() -> None:
    async with running() as (app, client):
        path, store = await path_of(app), (await app.service()).directory.store
        read, folds = store.read, list[int]()

        async def counted(agent: AgentId, after: Any, *given: Any, **named_ones: Any) -> Any:
            folds.append(after)
            return await read(agent, after, *given, **named_ones)

        store.read = counted  # type: ignore[method-assign]
        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(status(client, path, PHOTO)) for _ in range(50)]
        assert {each.result() for each in asked} == {200}
        assert folds.count(0) == 1
