"""An agent that thinks gives its model the content of a photo, and not the photo's URL."""

from __future__ import annotations

from pathlib import Path

import httpx
from pydantic_ai.messages import BinaryContent, ModelRequest

from everyword import AttachmentOptions, Everyword
from everyword.attachments.folder import FolderBlobStore
from tests.agents.think.kit import Script, thinker
from tests.attachments.room import PHOTOS, question


async def test_the_model_is_given_the_bytes_of_a_photo_that_a_page_sent(tmp_path: Path) -> None:
    script = Script(["A cat."], ["Still a cat."])
    app = Everyword([thinker(script)], store="memory:", attachments=AttachmentOptions(store=FolderBlobStore(tmp_path)))
    app.grace = 0.0
    where = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1/agents/chat/ann")
    async with app, where as client:
        await client.post("chat", json={"messages": [question(PHOTOS[0])]})
        stored = (await client.get("get-messages")).json()
        assert "/attachments/" in stored[0]["parts"][1]["url"]
        await client.post("chat", json={"messages": [*stored, question(message_id="u2")]})
    assert len(script.asked) == 2
    for asked in script.asked:
        said = [part.content for message in asked if isinstance(message, ModelRequest) for part in message.parts]
        files = [each for content in said if isinstance(content, list) for each in content]
        assert [each.data for each in files if isinstance(each, BinaryContent)] == [PHOTOS[0]]
        assert "/attachments/" not in repr(asked)
