"""`GET /conversations/{kind}/{name}/export`: who gets which file, and what a browser may do with it."""

from __future__ import annotations

import base64

import pytest

from tests.server.test_lists import Chat, running, said, user

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4000
PAGE = b"<script>alert(1)</script>"
EXPORT = "/conversations/chat/ann-1/export"


@pytest.mark.parametrize(
    ("form", "media_type", "ending"),
    [
        ("markdown", "text/markdown; charset=utf-8", "md"),
        ("html", "text/html; charset=utf-8", "html"),
        ("json", "application/json", "json"),
    ],
)
async def test_a_client_saves_a_conversation_as_a_file(form: str, media_type: str, ending: str) -> None:
    async with running() as (app, client):
        await said(app, "ann-1", "hello", "ann")
        response = await client.get(f"{EXPORT}?format={form}", headers=user("ann"))
        assert response.status_code == 200
        assert response.headers["content-type"] == media_type
        assert response.headers["content-disposition"] == f'attachment; filename="chat-ann-1.{ending}"'
        assert response.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "You said: hello" in response.text


async def test_only_clients_that_may_read_the_agent_get_the_file() -> None:
    async with running() as (app, client):
        await said(app, "ann-1", "hello", "ann")
        assert (await client.get(EXPORT, headers=user("bob"))).status_code == 403
        assert (await client.get(EXPORT)).status_code == 401
        assert (await client.get(EXPORT, headers=user("viewer"))).status_code == 200
        assert (await client.post(EXPORT, headers=user("ann"))).status_code == 405


async def test_what_does_not_exist_is_refused() -> None:
    async with running() as (app, client):
        await said(app, "ann-1", "hello", "ann")
        for query, status in (("format=pdf", 400), ("branch=nothing", 400), ("", 200)):
            assert (await client.get(f"{EXPORT}?{query}", headers=user("ann"))).status_code == status
        assert (await client.get("/conversations/chat/ann-2/export", headers=user("ann"))).status_code == 404
        assert (await client.get("/conversations/none/ann-2/export", headers=user("ann"))).status_code == 404
        assert (await client.get("/conversations/chat/ann-1/nothing", headers=user("ann"))).status_code == 404


async def test_a_long_conversation_is_written_whole() -> None:
    async with running() as (app, client):
        text = "word " * 60_000
        for _ in range(4):
            await said(app, "ann-1", text, "ann")
        response = await client.get(f"{EXPORT}?format=json", headers=user("ann"))
        assert len(response.json()["messages"]) == 8
        assert sum(len(part["text"]) for each in response.json()["messages"] for part in each["parts"]) > 2_000_000


async def test_uploaded_files_are_in_the_file_and_need_no_login() -> None:
    async with running() as (app, client):
        upload = "/agents/chat/ann-1/attachments?filename"
        kinds = ((PNG, "image/png", "sun.png"), (PAGE, "text/html", "page.html"))
        parts = []
        for content, media_type, name in kinds:
            headers = {**user("ann"), "content-type": media_type}
            parts.append((await client.post(f"{upload}={name}", content=content, headers=headers)).json())
        await app.get(Chat, "ann-1").persist_messages([{"id": "q", "role": "user", "parts": parts}])
        encoded = [base64.b64encode(content).decode() for content, *_ in kinds]
        page = await client.get(f"{EXPORT}?format=html", headers=user("ann"))
        assert page.status_code == 200
        assert f'<img alt="sun.png" src="data:image/png;base64,{encoded[0]}">' in page.text
        assert f'download="page.html" href="data:application/octet-stream;base64,{encoded[1]}"' in page.text
        assert "/attachments/" not in page.text
        (said,) = (await client.get(f"{EXPORT}?format=json", headers=user("ann"))).json()["messages"]
        assert [part["url"].partition(",")[2] for part in said["parts"]] == encoded
        (linked,) = (await client.get(f"{EXPORT}?format=json&embed=0", headers=user("ann"))).json()["messages"]
        assert [part["url"] for part in linked["parts"]] == [part["url"] for part in parts]
        assert (await client.get(f"{EXPORT}?format=html", headers=user("bob"))).status_code == 403
