"""Watching without changing, and transcripts in pages."""

from __future__ import annotations

import json
from typing import Any

import httpx
import websockets

from everyword import Everyword, Principal
from everyword.server import Connecting
from tests.server.kit import scripted, serving


async def watch_only(connecting: Connecting) -> Principal:
    return Principal("guest", read_only=connecting.request.query_params.get("key") != "owner")


def question(request: str, text: str = "hi") -> dict[str, Any]:
    message = {"id": f"u-{request}", "role": "user", "parts": [{"type": "text", "text": text}]}
    body = json.dumps({"messages": [message]})
    return {"type": "cf_agent_use_chat_request", "id": request, "init": {"method": "POST", "body": body}}


async def until_done(socket: Any, request: str) -> dict[str, Any]:
    async for text in socket:
        frame: dict[str, Any] = json.loads(text)
        if frame.get("id") == request and frame.get("done"):
            return frame
    raise AssertionError("the socket closed before the end")


async def test_a_read_only_client_watches_and_changes_nothing() -> None:
    app = Everyword([scripted(["hello"])], store="memory:", authorize=watch_only)
    async with serving(app) as url, httpx.AsyncClient() as http:
        address = url.replace("http", "ws") + "/agents/chat/ann"
        async with websockets.connect(address + "?key=owner") as owner, websockets.connect(address) as guest:
            await guest.send(json.dumps(question("r1")))
            refused = await until_done(guest, "r1")
            assert refused["error"] and "only watch" in refused["body"]
            await guest.send(json.dumps({"type": "cf_agent_chat_messages", "messages": []}))
            await owner.send(json.dumps(question("r2")))
            assert (await until_done(guest, "r2"))["outcome"] == "completed"
            await guest.send(json.dumps({"type": "cf_agent_chat_clear"}))
            await guest.send(json.dumps(question("r3")))
            await until_done(guest, "r3")
        stored = (await http.get(f"{url}/agents/chat/ann/get-messages")).json()
        assert [message["role"] for message in stored] == ["user", "assistant"]
        for resource in ("chat", "chat/stop"):
            answer = await http.post(f"{url}/agents/chat/ann/{resource}", json={"messages": []})
            assert answer.status_code == 403 and "watch" in answer.text


async def test_a_transcript_is_had_whole_or_in_pages_from_the_end() -> None:
    app = Everyword([scripted(["ok"])], store="memory:")
    async with serving(app) as url, httpx.AsyncClient() as http:
        agent = app.get(app.classes["chat"], "ann")  # type: ignore[type-var]
        for number in range(3):
            message = {"id": f"u{number}", "role": "user", "parts": [{"type": "text", "text": str(number)}]}
            await agent.save_messages([message])  # type: ignore[attr-defined]
        whole = (await http.get(f"{url}/agents/chat/ann/get-messages")).json()
        assert len(whole) == 6

        async def page(**asked: Any) -> list[Any]:
            return (await http.get(f"{url}/agents/chat/ann/get-messages", params=asked)).json()

        newest = await page(limit=2)
        assert newest == whole[4:]
        assert await page(limit=3, before=newest[0]["id"]) == whole[1:4]
        assert await page(before=whole[0]["id"]) == []
        assert await page(limit="many", token="x") == whole
        unknown = await http.get(f"{url}/agents/chat/ann/get-messages", params={"before": "nobody"})
        assert unknown.status_code == 400 and "nobody" in unknown.text
