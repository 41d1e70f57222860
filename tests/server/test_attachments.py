"""Attachments over HTTP and sockets: uploading, reading, links, limits, and photos that are moved out of messages."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from everyword import AIChatAgent, AttachmentOptions, Connecting, Everyword, Limits, Principal, Reject, Upload
from everyword.attachments.folder import FolderBlobStore
from everyword.attachments.keys import blob_key, hash_in
from everyword.attachments.memory import MemoryBlobStore
from everyword.errors import UsageError
from everyword.ids import AgentId
from everyword.messages.attachments import attachment_hash
from tests.server.kit import chat, connect, question, scripted, serving, talking
from tests.server.sockets import socket

ANN = AgentId("chat/ann")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 100
NAME = hashlib.sha256(PNG).hexdigest()
PATH = f"attachments/{NAME}"
IS_PNG = {"content-type": "image/png"}

Chat = scripted(["Hello."])


def photo(content: bytes = PNG, media_type: str = "image/png") -> dict[str, Any]:
    url = f"data:{media_type};base64,{base64.b64encode(content).decode()}"
    return {"type": "file", "mediaType": media_type, "filename": "photo.png", "url": url}


def asking(message_id: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": "look"}, *parts]}


# -- uploading and reading ------------------------------------------------------------------------------------------


async def test_an_upload_is_answered_with_its_file_part_and_read_back() -> None:
    async with talking(chat(Chat)) as client:
        answer = await client.post("attachments?filename=photo.png", content=PNG, headers=IS_PNG)
        assert answer.status_code == 201
        url = f"/agents/chat/ann/{PATH}"
        assert answer.json() == {"type": "file", "mediaType": "image/png", "filename": "photo.png", "url": url}
        assert answer.headers["location"] == url
        read = await client.get(PATH)
        assert (read.status_code, read.content) == (200, PNG)
        assert read.headers["content-type"] == "image/png"
        assert read.headers["content-disposition"].startswith("inline")
        assert read.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in read.headers["content-security-policy"]
        assert read.headers["cache-control"].startswith("private")
        assert (await client.get(PATH, headers={"if-none-match": read.headers["etag"]})).status_code == 304
        head = await client.head(PATH)
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(PNG)))


@pytest.mark.parametrize(
    ("given", "first", "end"),
    [
        ("bytes=0-9", 0, 10),
        ("bytes=100-", 100, len(PNG)),
        ("bytes=-5", len(PNG) - 5, len(PNG)),
        ("bytes=0-999999", 0, len(PNG)),
    ],
)
async def test_one_range_is_served(given: str, first: int, end: int) -> None:
    async with talking(chat(Chat)) as client:
        await client.post("attachments", content=PNG, headers=IS_PNG)
        part = await client.get(PATH, headers={"range": given})
        assert (part.status_code, part.content) == (206, PNG[first:end])
        assert part.headers["content-range"] == f"bytes {first}-{end - 1}/{len(PNG)}"


async def test_ranges_that_cannot_be_served_are_refused_or_ignored() -> None:
    async with talking(chat(Chat)) as client:
        await client.post("attachments", content=PNG, headers=IS_PNG)
        behind = await client.get(PATH, headers={"range": "bytes=99999999-"})
        assert (behind.status_code, behind.headers["content-range"]) == (416, f"bytes */{len(PNG)}")
        for ignored in ("bytes=0-1,3-4", "bytes=9-2", "bytes=-", "lines=0-1"):
            assert (await client.get(PATH, headers={"range": ignored})).status_code == 200


async def test_a_page_that_is_called_an_image_is_a_download() -> None:
    page = b"<script>alert(1)</script>"
    sha256 = hashlib.sha256(page).hexdigest()
    async with talking(chat(Chat)) as client:
        assert (
            await client.post("attachments", content=page, headers={"content-type": "text/html"})
        ).status_code == 201
        read = await client.get(f"attachments/{sha256}")
        assert read.headers["content-type"] == "application/octet-stream"
        assert read.headers["content-disposition"].startswith("attachment")
        refused = await client.post("attachments", content=page, headers=IS_PNG)
        assert (refused.status_code, refused.text) == (
            415,
            "unable to store the file; it is called image/png, and its content is something else\n",
        )


@pytest.mark.parametrize("said", [None, "application/octet-stream", "application/x-www-form-urlencoded"])
async def test_the_first_bytes_give_the_type_of_an_upload_whose_header_does_not(said: str | None) -> None:
    headers = {"content-type": said} if said is not None else {}
    async with talking(chat(Chat, attachments=AttachmentOptions(media_types=["image/*"]))) as client:
        assert (await client.post("attachments", content=PNG, headers=headers)).json()["mediaType"] == "image/png"
        unknown = await client.post("attachments", content=b"text", headers=headers)
        assert (unknown.status_code, "application/octet-stream is not among" in unknown.text) == (415, True)


async def test_a_form_is_refused_and_not_stored_as_a_file() -> None:
    async with talking(chat(Chat)) as client:
        form = await client.post("attachments", files={"file": ("photo.png", PNG, "image/png")})
        assert (form.status_code, "send the file itself as the body" in form.text) == (415, True)


async def test_what_is_not_stored_is_404_and_reading_creates_no_agent() -> None:
    app = chat(Chat)
    async with talking(app) as client:
        missing = await client.get(PATH)
        assert (missing.status_code, missing.text) == (404, f"unable to read attachment {NAME}; it is not stored\n")
        assert (await client.get("attachments/../../etc")).status_code == 404
        assert (await client.get("attachments/" + "g" * 64)).status_code == 404
        assert (await client.get("attachments")).status_code == 405
        assert not await (await app.service()).directory.store.has(ANN)


# -- limits ---------------------------------------------------------------------------------------------------------


async def test_uploads_have_limits_and_leave_nothing_behind(tmp_path: Path) -> None:
    async def endless() -> Any:
        for _ in range(100):
            yield b"x" * 10_000

    limits = Limits(upload=50_000, attachments=60_000, uploads_per_minute=5)
    async with talking(chat(Chat, limits=limits, attachments=AttachmentOptions(store=str(tmp_path)))) as client:
        assert (await client.post("attachments", content=b"x" * 50_001)).status_code == 413
        assert (await client.post("attachments", content=endless())).status_code == 413
        assert (await client.post("attachments", content=b"")).status_code == 422
        assert (await client.post("attachments", content=b"a" * 40_000)).status_code == 201
        full = await client.post("attachments", content=b"b" * 40_000)
        assert full.status_code == 413
        assert "of files, the limit" in full.text
        assert (await client.post("attachments", content=b"a" * 10)).status_code == 201
        late = await client.post("attachments", content=b"c")
        assert (late.status_code, "retry-after" in late.headers) == (429, True)
        kept = [blob async for blob in FolderBlobStore(tmp_path).list("")]
        assert sorted(blob.size for blob in kept if not blob.key.endswith("/agent")) == [10, 40_000]


async def test_uploads_at_the_same_time_share_the_limit_of_their_conversation() -> None:
    blobs, begun, go_on = MemoryBlobStore(), asyncio.Semaphore(0), asyncio.Event()

    async def slow(mark: bytes) -> Any:
        yield mark * 20_000
        begun.release()
        await go_on.wait()
        yield mark * 20_000

    options = {"limits": Limits(attachments=60_000), "attachments": AttachmentOptions(store=blobs)}
    async with talking(chat(Chat, **options)) as client:
        uploads = [asyncio.create_task(client.post("attachments", content=slow(mark))) for mark in (b"a", b"b")]
        for _ in uploads:
            await begun.acquire()
        go_on.set()
        answers = sorted([(await upload).status_code for upload in uploads])
        assert answers in ([201, 413], [413, 413])
        assert sum([blob.size async for blob in blobs.list("agents/")]) < 60_000
        assert (await client.post("attachments", content=b"c" * 15_000)).status_code == 201, (
            "refused bytes are free again"
        )


async def test_of_uploads_at_the_same_time_those_that_fit_are_stored() -> None:
    begun, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def slow(mark: bytes) -> Any:
        for _ in range(4):
            yield mark * 10_000
            begun.release()
            await go_on.wait()

    app = chat(Chat, limits=Limits(attachments=90_000))
    transport = httpx.ASGITransport(app)
    async with app, httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/agents/chat/ann") as client:
        headers = {"content-length": "40000"}
        uploads = [
            asyncio.create_task(client.post("attachments", content=slow(mark), headers=headers))
            for mark in (b"a", b"b", b"c", b"d")
        ]
        for _ in range(2):
            await begun.acquire()
        go_on.set()
        assert sorted([(await upload).status_code for upload in uploads]) == [201, 201, 413, 413]


async def test_types_and_a_check_of_the_app_decide_what_is_stored() -> None:
    seen: list[Upload] = []

    async def scan(upload: Upload) -> str | None:
        seen.append(upload)
        content = b"".join([piece async for piece in upload.read()])
        if b"crash" in content:
            raise RuntimeError("the scanner is down")
        return "it has a virus" if b"virus" in content else None

    options = AttachmentOptions(media_types=["image/*", "text/plain"], scan=scan)
    text = {"content-type": "text/plain"}
    async with talking(chat(Chat, attachments=options)) as client:
        pdf = await client.post("attachments", content=b"%PDF-1", headers={"content-type": "application/pdf"})
        assert (pdf.status_code, "not among the allowed types" in pdf.text) == (415, True)
        assert (await client.post("attachments", content=b"fine", headers=text)).status_code == 201
        bad = await client.post("attachments", content=b"a virus", headers=text)
        assert (bad.status_code, bad.text) == (422, "unable to store the file; it has a virus\n")
        assert (await client.post("attachments", content=b"crash", headers=text)).status_code == 503
        assert (await client.get(f"attachments/{hashlib.sha256(b'a virus').hexdigest()}")).status_code == 404
    assert [(each.kind, each.name, each.media_type, each.size) for each in seen[:1]] == [
        ("chat", "ann", "text/plain", 4)
    ]


async def test_uploading_needs_the_right_to_ask_and_reading_that_to_read() -> None:
    def authorize(connecting: Connecting) -> Principal | Reject:
        given = connecting.request.headers.get("x-user")
        return Principal(given, read_only=given == "guest") if given else Reject("no", 401)

    app = chat(Chat, authorize=authorize)
    async with talking(app) as client:
        ann, guest = {"x-user": "ann"}, {"x-user": "guest"}
        assert (await client.post("attachments", content=PNG, headers=IS_PNG)).status_code == 401
        assert (await client.post("attachments", content=PNG, headers={**IS_PNG, **guest})).status_code == 403
        assert (await client.post("attachments", content=PNG, headers={**IS_PNG, **ann})).status_code == 201
        assert (await client.get(PATH)).status_code == 401
        assert (await client.get(PATH, headers=guest)).status_code == 200
        link = await app.attachments.signed_url("chat", "ann", NAME_URL)
        assert link.startswith(NAME_URL)
        signed = await client.get(PATH + link.removeprefix(NAME_URL))
        assert signed.status_code == 200, "a link needs no principal"


NAME_URL = f"/agents/chat/ann/{PATH}"


async def test_a_file_that_is_deleted_while_it_is_asked_for_is_404() -> None:
    class Deleting(MemoryBlobStore):
        """A store from which a content is deleted by another process, right after it was found."""

        async def find(self, key: str) -> Any:
            found = await super().find(key)
            if hash_in(key) is not None and is_read:
                await self.delete(key)
            return found

    is_read = False
    app = chat(Chat, attachments=AttachmentOptions(store=Deleting()))
    async with talking(app) as client:
        for is_signed in (False, True):
            is_read = False
            await client.post("attachments", content=PNG, headers=IS_PNG)
            link = await app.attachments.signed_url(Chat, "ann", NAME_URL)
            is_read = True
            gone = await client.get(link.removeprefix("/agents/chat/ann/") if is_signed else PATH)
            assert (gone.status_code, gone.text) == (404, f"unable to read attachment {NAME}; it is not stored\n")


async def test_a_conversation_does_not_read_what_another_one_has() -> None:
    async with serving(chat(Chat)) as url, connect(f"{url}/agents/chat") as client:
        await client.post("ann/attachments", content=PNG, headers=IS_PNG)
        assert (await client.get(f"bob/{PATH}")).status_code == 404
        asked = question()
        asked["messages"] = [asking("u1", {"type": "file", "mediaType": "image/png", "url": NAME_URL})]
        await client.post("bob/chat", json=asked)
        assert (await client.get(f"bob/{PATH}")).status_code == 404


# -- links -----------------------------------------------------------------------------------------------------------


async def test_a_signed_link_is_read_until_it_expires_and_only_as_it_was_made() -> None:
    app = chat(Chat, authorize=lambda connecting: Reject("no", 403), attachments=AttachmentOptions(key="k" * 16))
    async with serving(app) as url, connect(url) as client:
        part = await (await app.attachments.of(Chat, "ann")).put(PNG, "image/png")
        link = await app.attachments.signed_url(Chat, "ann", part)
        assert (await client.get(link)).content == PNG
        assert (await client.get(link, headers={"range": "bytes=0-3"})).content == PNG[:4]
        assert (await client.post(link)).status_code == 403
        bare = link.partition("?")[0]
        changes = link[:-1] + ("0" if link[-1] != "0" else "1"), link.replace("expires=", "expires=9")
        for changed in (*changes, f"{bare}?expires=1&signature=", f"{bare}?signature=é"):
            refused = await client.get(changed)
            assert (refused.status_code, "expired or was changed" in refused.text) == (403, True)
        assert (await client.get(link.replace("/ann/", "/bob/"))).status_code == 403
        over = await app.attachments.signed_url(Chat, "ann", part, expires_in=timedelta(seconds=-1))
        assert (await client.get(over)).status_code == 403


async def test_links_outlive_a_restart_by_the_key_beside_the_attachments(tmp_path: Path) -> None:
    def app() -> Everyword:
        return chat(Chat, store=str(tmp_path / "chat.db"))

    async with app() as first:
        part = await (await first.attachments.of(Chat, "ann")).put(PNG, "image/png")
        link = await first.attachments.signed_url(Chat, "ann", part)
    async with serving(app()) as url, connect(url) as client:
        assert (await client.get(link)).content == PNG
    assert (tmp_path / "chat.db.attachments").is_dir()


# -- data: URLs in messages -------------------------------------------------------------------------------------------


async def test_a_photo_in_a_posted_message_is_stored_as_an_attachment() -> None:
    async with talking(chat(Chat)) as client:
        asked = {"messages": [asking("u1", photo())]}
        assert (await client.post("chat", json=asked)).status_code == 200
        again = await client.post("chat", json={"messages": [*asked["messages"], asking("u2")]})
        assert again.status_code == 200
        stored = (await client.get("get-messages")).json()
        assert [each["role"] for each in stored] == ["user", "assistant", "user", "assistant"], "no branch was made"
        part = stored[0]["parts"][1]
        assert part == {**photo(), "url": f"/agents/chat/ann/{PATH}"}
        assert (await client.get(PATH)).content == PNG


async def test_a_photo_with_the_type_of_another_kind_of_image_is_stored_with_its_own() -> None:
    async with talking(chat(Chat)) as client:
        asked = [asking("u1", photo(PNG, "image/jpeg"))]
        assert (await client.post("chat", json={"messages": asked})).status_code == 200
        assert (await client.post("chat", json={"messages": [*asked, asking("u2")]})).status_code == 200
        stored = (await client.get("get-messages")).json()
        assert [each["id"] for each in stored if each["role"] == "user"] == ["u1", "u2"], "no branch was made"
        assert stored[0]["parts"][1]["mediaType"] == "image/png"
        uploaded = await client.post("attachments", content=PNG, headers={"content-type": "image/jpeg"})
        assert uploaded.json() == {"type": "file", "mediaType": "image/png", "url": NAME_URL}


async def test_small_data_urls_stay_and_the_limit_can_be_set() -> None:
    small = photo(PNG[:300])
    async with talking(chat(Chat)) as client:
        await client.post("chat", json={"messages": [asking("u1", small)]})
        assert (await client.get("get-messages")).json()[0]["parts"][1] == small
    async with talking(chat(Chat, attachments=AttachmentOptions(data_url_limit=0))) as client:
        await client.post("chat", json={"messages": [asking("u1", small)]})
        url = (await client.get("get-messages")).json()[0]["parts"][1]["url"]
        assert attachment_hash(url) == hashlib.sha256(PNG[:300]).hexdigest()


async def test_the_client_of_a_socket_is_sent_the_stored_form_before_the_answer() -> None:
    async with serving(chat(Chat)) as url, socket(f"{url}/agents/chat/ann") as client:
        body = json.dumps({"messages": [asking("u1", photo())]})
        await client.greeted()
        await client.send(type="cf_agent_use_chat_request", id="r1", init={"method": "POST", "body": body})
        await client.ended("r1")
    told = next(place for place, frame in enumerate(client.frames) if PATH in json.dumps(frame))
    answered = next(i for i, frame in enumerate(client.frames) if frame["type"] == "cf_agent_use_chat_response")
    assert told < answered


async def test_a_photo_that_is_refused_refuses_its_message() -> None:
    async with talking(chat(Chat)) as client:
        refused = await client.post("chat", json={"messages": [asking("u1", photo(b"x" * 20_000))]})
        assert (refused.status_code, refused.text) == (
            415,
            "unable to take message 'u1'; it is called image/png, and its content is something else\n",
        )
        assert (await client.get("get-messages")).json() == []


async def test_a_photo_that_is_too_large_refuses_its_message_with_413() -> None:
    for limits in (Limits(upload=20_000), Limits(attachments=20_000)):
        async with talking(chat(Chat, limits=limits)) as client:
            refused = await client.post("chat", json={"messages": [asking("u1", photo())]})
            assert (refused.status_code, "the limit of this server" in refused.text) == (413, True)


async def test_photos_that_were_stored_in_messages_stay_there_under_newer_rules(tmp_path: Path) -> None:
    asked = [asking("u1", photo(b"text" * 9000, "text/plain"))]
    unmoved, strict = AttachmentOptions(data_url_limit=10**9), AttachmentOptions(media_types=["image/*"])
    async with talking(chat(Chat, store=str(tmp_path / "chat.db"), attachments=unmoved)) as client:
        await client.post("chat", json={"messages": asked})
        before = (await client.get("get-messages")).json()
    async with serving(chat(Chat, store=str(tmp_path / "chat.db"), attachments=strict)) as url, socket(url) as client:
        await client.greeted()
        lists = len([frame for frame in client.frames if frame["type"] == "cf_agent_chat_messages"])
        body = json.dumps({"messages": [*before, asking("u2")]})
        await client.send(type="cf_agent_use_chat_request", id="r1", init={"method": "POST", "body": body})
        assert "error" not in await client.ended("r1")
        await client.settled()
        assert len([frame for frame in client.frames if frame["type"] == "cf_agent_chat_messages"]) == lists + 1
        async with connect(f"{url}/agents/chat/ann") as http:
            for trigger in ("regenerate-message", "submit-message"):  # the stored question, alone and with a new one
                more = [asking("u3")] if trigger == "submit-message" else []
                body_of = {"trigger": trigger, "messages": [before[0], *more]}
                assert (await http.post("chat", json=body_of)).status_code == 200
            after = (await http.get("get-messages")).json()
            assert after[0] == before[0], "it is no edit"
            changed = {**before[0], "parts": [*before[0]["parts"], photo(b"more" * 9000, "text/plain")]}
            refused = await http.post("chat", json={"messages": [changed]})
            assert (refused.status_code, "not among the allowed types" in refused.text) == (415, True)


async def test_a_place_that_cannot_be_used_fails_a_question_and_no_connection(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    app = chat(Chat, attachments=AttachmentOptions(store=str(tmp_path / "file" / "folder"), key="k" * 16))
    async with serving(app) as url, socket(url) as client, connect(f"{url}/agents/chat/ann") as http:
        body = json.dumps({"messages": [asking("u1", photo())]})
        await client.send(type="cf_agent_use_chat_request", id="r1", init={"method": "POST", "body": body})
        why = "unable to store or read files right now; nothing was written. Try again in a moment."
        assert (await client.ended("r1"))["body"] == why
        await client.send(type="cf_agent_chat_messages", messages=[asking("u1", photo())])
        await client.settled()
        await client.ask("r2")
        assert "error" not in await client.ended("r2"), "text does not need the place"
        for answer in (
            await http.post("chat", content=body),
            await http.post("attachments", content=PNG, headers=IS_PNG),
        ):
            assert (answer.status_code, answer.text, "retry-after" in answer.headers) == (503, f"{why}\n", True)


@pytest.mark.parametrize(
    ("options", "headers", "start"),
    [
        ({}, {}, "/agents/chat/ann/"),
        ({"public_url": "https://chat.example.org"}, {}, "https://chat.example.org/agents/chat/ann/"),
        ({"public_url": "/below/"}, {}, "/below/agents/chat/ann/"),
        ({}, {"origin": "http://localhost:5173", "host": "localhost:8787"}, "http://localhost:8787/agents/chat/ann/"),
        ({}, {"origin": "https://page.example", "host": "chat.example"}, "https://chat.example/agents/chat/ann/"),
        ({}, {"origin": "https://chat.example", "host": "chat.example"}, "/agents/chat/ann/"),
    ],
)
async def test_urls_lead_to_the_app_from_where_the_client_is(
    options: dict[str, Any], headers: dict[str, str], start: str
) -> None:
    def everyone(connecting: Connecting) -> Principal:
        return Principal("ann")

    app = chat(Chat, authorize=everyone, origins="*", attachments=AttachmentOptions(**options))
    async with talking(app) as client:
        answer = await client.post("attachments", content=PNG, headers={**IS_PNG, **headers})
        assert answer.json()["url"] == f"{start}{PATH}"


async def test_an_app_below_a_path_stores_urls_that_its_pages_can_fetch() -> None:
    inner = chat(Chat)
    outer = Starlette(routes=[Mount("/team", app=inner)])
    async with inner, serving(outer) as url, connect(url) as client:
        where = "/team/agents/chat/ann"
        assert (await client.post(f"{where}/chat", json={"messages": [asking("u1", photo())]})).status_code == 200
        part = (await client.get(f"{where}/get-messages")).json()[0]["parts"][1]
        assert part["url"] == f"{where}/{PATH}"
        assert (await client.get(part["url"])).content == PNG
        uploaded = await client.post(f"{where}/attachments", content=PNG, headers=IS_PNG)
        assert uploaded.json()["url"] == part["url"]


@pytest.mark.parametrize(("mount", "base_path"), [("/agents", "/"), ("/team", "/agents")])
async def test_files_that_an_agent_makes_in_a_mounted_app_can_be_fetched(mount: str, base_path: str) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Any) -> Any:
            yield await self.attachments.put(PNG, "image/png")

    inner = chat(Chat, base_path=base_path, authorize=lambda connecting: Principal("ann"))
    outer = Starlette(routes=[Mount(mount, app=inner)])
    where = f"{mount}{base_path}/chat/ann".replace("//", "/")
    async with inner, serving(outer) as url, connect(url) as client:
        await client.post(f"{where}/chat", json=question())
        (part,) = [
            part for part in (await client.get(f"{where}/get-messages")).json()[1]["parts"] if part["type"] == "file"
        ]
        assert part["url"] == f"{where}/{PATH}"
        assert (await client.get(part["url"])).content == PNG
        assert (await client.get(await inner.attachments.signed_url(Chat, "ann", part))).content == PNG


async def test_the_same_photo_at_another_address_is_no_edit(tmp_path: Path) -> None:
    asked = {"messages": [asking("u1", photo())]}
    for public_url in (None, "https://chat.example.org"):
        options = AttachmentOptions(public_url=public_url)
        async with talking(chat(Chat, store=str(tmp_path / "chat.db"), attachments=options)) as client:
            await client.post("chat", json=asked)
            stored = (await client.get("get-messages")).json()
    assert [part["url"] for part in stored[0]["parts"][1:]] == [f"/agents/chat/ann/{PATH}"]


async def test_a_deleted_file_does_not_break_the_conversation(tmp_path: Path) -> None:
    async with talking(chat(Chat, attachments=AttachmentOptions(store=str(tmp_path)))) as client:
        await client.post("chat", json={"messages": [asking("u1", photo())]})
        await FolderBlobStore(tmp_path).delete(blob_key(ANN, NAME))
        assert (await client.get(PATH)).status_code == 404
        stored = (await client.get("get-messages")).json()
        answer = await client.post("chat", json={"messages": [*stored, asking("u2")]})
        assert "Hello." in answer.text


async def test_a_store_of_several_nodes_without_a_place_keeps_photos_in_the_messages(postgres_url: str) -> None:
    async with talking(chat(Chat, store=postgres_url)) as client:
        refused = await client.post("attachments", content=PNG, headers=IS_PNG)
        assert (refused.status_code, "this server has no place for them" in refused.text) == (501, True)
        await client.post("chat", json={"messages": [asking("u1", photo())]})
        assert (await client.get("get-messages")).json()[0]["parts"][1] == photo()


@pytest.mark.parametrize(
    "wrong",
    [{"key": "short"}, {"for_models": "links"}, {"public_url": "chat.example"}, {"grace": timedelta(seconds=-1)}],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="unable to"):
        AttachmentOptions(**wrong)
