"""Photos in the questions of the Python client."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import httpx

from everyword.messages.attachments import attachment_hash
from tests.client.kit import client, patiently, shown_is_stored
from tests.server.kit import chat, scripted, serving

SIZE = 3_000_000


def photo(number: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + bytes([number]) * SIZE


async def test_after_ten_photos_the_client_has_their_urls_and_asks_on(tmp_path: Path) -> None:
    app = chat(scripted(["Nice."]), store=str(tmp_path / "chat.db"))
    async with serving(app) as url, client(url) as me, client(url) as other:
        for number in range(10):
            data = f"data:image/png;base64,{b64encode(photo(number)).decode()}"
            part = {"type": "file", "mediaType": "image/png", "filename": f"{number}.png", "url": data}
            assert await patiently(me.send([{"type": "text", "text": "look"}, part])) is not None
        assert await patiently(me.send("which is the best?")) is not None
        assert await shown_is_stored(me)
        assert await shown_is_stored(other)
        parts = [part for message in other.messages for part in message.parts if part["type"] == "file"]
        assert len({attachment_hash(part["url"]) for part in parts} - {None}) == 10
        assert len(me.messages) == 22, "no photo counts as an edit"
        async with httpx.AsyncClient(base_url=url, trust_env=False) as http:
            assert (await http.get(parts[7]["url"])).content == photo(7)
