"""`sanitize_message_for_persistence` moves large contents out of answers: it returns them as `data:` URLs."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from typing import Any

import pytest

from everyword import AIChatAgent, AttachmentOptions, Everyword, Turn, UIMessage
from everyword.attachments.base import BlobStore
from everyword.attachments.memory import MemoryBlobStore
from everyword.errors import AttachmentsUnavailable

ROWS = [{"row": number, "text": "word " * 20} for number in range(400)]
"""What a tool finds: 50 KiB of JSON."""


class Search(AIChatAgent):
    """Answers with the output of a tool, which is stored as a file."""

    said: asyncio.Event | None = None
    """Set when everything is said; the answer then waits until it is stopped."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[dict[str, Any] | str]:
        yield {"type": "tool-input-available", "toolCallId": "c1", "toolName": "search", "input": {}}
        yield {"type": "tool-output-available", "toolCallId": "c1", "output": {"rows": ROWS}}
        yield "Found 400 rows."
        if self.said is not None:
            self.said.set()
            await asyncio.Event().wait()

    def sanitize_message_for_persistence(self, message: UIMessage) -> UIMessage:
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            if "rows" not in (part.get("output") or ()):
                parts.append(dict(part))
                continue
            url = f"data:application/json;base64,{b64encode(json.dumps(part['output']).encode()).decode()}"
            file = {"type": "file", "mediaType": "application/json", "filename": "rows.json", "url": url}
            parts += [{**part, "output": {"rows": len(part["output"]["rows"])}}, file]
        return UIMessage(message.id, message.role, parts, message.metadata)


class Waiting(Search):
    said = asyncio.Event()


class Broken(MemoryBlobStore):
    """A place for attachments that cannot be written."""

    async def put(self, key: str, pieces: Any) -> None:
        raise AttachmentsUnavailable("unable to write; the bucket is gone")


def serving(store: BlobStore | None = None) -> Everyword:
    options = AttachmentOptions(store=store) if store is not None else AttachmentOptions()
    return Everyword([Search, Waiting], store="memory:", attachments=options)


def file_of(message: UIMessage) -> dict[str, Any]:
    (found,) = (part for part in message.parts if part["type"] == "file")
    return dict(found)


async def test_a_large_output_is_stored_as_an_attachment() -> None:
    async with serving() as app:
        (_, answer) = await asked(app)
        file = file_of(answer)
        assert file["url"].startswith("/agents/search/ann/attachments/")
        content = await (await app.attachments.of(Search, "ann")).read(file)
        assert json.loads(content) == {"rows": ROWS}
        assert len(answer.encode()) < 1000


async def asked(app: Everyword) -> list[UIMessage]:
    search = app.get(Search, "ann")
    await search.save_messages("Find rows")
    return await search.get_messages()


async def test_an_output_of_a_stopped_answer_is_stored_as_an_attachment() -> None:
    async with serving() as app:
        search = app.get(Waiting, "ann")
        asking = asyncio.create_task(search.save_messages("Find rows", request_id="r1"))
        await Waiting.said.wait()
        await search.abort_request("r1")
        assert (await asking).status == "aborted"
        file = file_of((await search.get_messages())[-1])
        content = await (await app.attachments.of(Waiting, "ann")).read(file)
        assert "/attachments/" in file["url"]
        assert json.loads(content) == {"rows": ROWS}


async def test_an_output_that_cannot_be_stored_stays_in_its_message(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Broken()) as app:
        (_, answer) = await asked(app)
        assert file_of(answer)["url"].startswith("data:application/json;base64,")
        assert "a file of an answer stays in its message" in caplog.text
