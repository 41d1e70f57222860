"""Agents read and make files, and models are given the contents of attachments, whoever converts the messages."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta
from typing import Any

import pytest

from everyword import AIChatAgent, AttachmentOptions, Everyword, UIMessage, convert_to_model_messages
from everyword.attachments.keys import blob_key
from everyword.attachments.memory import MemoryBlobStore
from everyword.attachments.objects import ObjectBlobStore
from everyword.errors import AttachmentMissing, UsageError
from everyword.ids import AgentId
from everyword.messages.attachments import attachment_hash
from everyword.models.anthropic_messages import to_anthropic
from everyword.models.openai_messages import to_openai

ANN = AgentId("chat/ann")
PNG = b"\x89PNG\r\n\x1a\n" + b"pixels" * 5000
AS_DATA = "data:image/png;base64,iVBORw0KG"


def photo(message_id: str, part: dict[str, Any]) -> UIMessage:
    return UIMessage(message_id, "user", [{"type": "text", "text": "look"}, part])


def app_of(cls: type[AIChatAgent], **options: Any) -> Everyword:
    app = Everyword([cls], store="memory:", attachments=AttachmentOptions(**options))
    app.grace = 0.0
    return app


class Converting(AIChatAgent):
    """Notes what each adapter makes of its messages."""

    kind = "chat"
    made: dict[str, str] = {}  # noqa: RUF012 - a test reads it

    async def on_chat_message(self, turn: Any) -> Any:
        for adapter in (to_openai, to_anthropic, convert_to_model_messages):
            self.made[adapter.__name__] = repr(adapter(self.messages))
        yield "seen"


async def test_every_adapter_gives_the_content_to_the_model() -> None:
    async with app_of(Converting) as app:
        part = await (await app.attachments.of(Converting, "ann")).put(PNG, "image/png", filename="a.png")
        result = await app.get(Converting, "ann").save_messages([photo("u1", part)])
        assert (result.status, len(Converting.made)) == ("completed", 3)
        for name, made in Converting.made.items():
            assert "iVBORw0KG" in made, name
            assert "/attachments/" not in made, name


async def test_a_model_reads_that_a_file_is_gone_and_the_turn_goes_on() -> None:
    blobs = MemoryBlobStore()
    async with app_of(Converting, store=blobs) as app:
        part = await (await app.attachments.of(Converting, "ann")).put(PNG, "image/png", filename="a.png")
        await blobs.delete(blob_key(ANN, attachment_hash(part["url"]) or ""))
        result = await app.get(Converting, "ann").save_messages([photo("u1", part)])
        assert result.status == "completed"
        assert "The file a.png (image/png) cannot be shown; it is not stored any more." in Converting.made["to_openai"]


async def test_an_adapter_reads_no_more_than_a_model_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    class Measuring(MemoryBlobStore):
        def read_now(self, key: str, length: int | None = None) -> bytes:
            content = super().read_now(key, length)
            read.append(len(content))
            return content

    read: list[int] = []
    monkeypatch.setattr("everyword.messages.attachment_contents.MOST_FOR_MODEL", len(PNG) + 10)
    async with app_of(Converting, store=Measuring()) as app:
        files = await app.attachments.of(Converting, "ann")
        large, small = [await files.put(PNG * size, "image/png", filename=f"{size}.png") for size in (9, 1)]
        asked = [photo("u1", large), photo("u2", small)]
        assert (await app.get(Converting, "ann").save_messages(asked)).status == "completed"
    assert read == [len(PNG), 11] * 3, "of a file that does not fit, one byte more than fits"
    for made in Converting.made.values():
        assert "The file 9.png (image/png) cannot be shown; there are too many files." in made
        assert "iVBORw0KG" in made


async def test_object_storage_is_read_before_an_adapter_converts() -> None:
    made: list[str] = []

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Any) -> Any:
            with pytest.raises(UsageError, match="for_model"):
                to_openai(self.messages)
            made.append(repr(to_openai(await self.attachments.for_model(self.messages))))
            yield "seen"

    async with app_of(Chat, store=ObjectBlobStore.from_url("memory:///")) as app:
        part = await (await app.attachments.of(Chat, "ann")).put(PNG, "image/png")
        assert (await app.get(Chat, "ann").save_messages([photo("u1", part)])).status == "completed"
    assert AS_DATA in made[0]


async def test_models_get_the_newest_files_up_to_a_limit_or_links() -> None:
    async with app_of(Converting) as app:
        files = await app.attachments.of(Converting, "ann")
        old, new = [await files.put(PNG + mark, "image/png", filename=mark.decode()) for mark in (b"old", b"new")]
        given = await files.for_model([photo("u1", old), photo("u2", new)], limit=len(PNG) + 10)
        assert given[0].parts[1]["text"] == "[The file old (image/png) cannot be shown; there are too many files.]"
        assert given[1].parts[1]["url"].startswith(AS_DATA)
    public = {"public_url": "https://chat.example", "for_models": "links"}
    async with app_of(Converting, **public) as app:
        files = await app.attachments.of(Converting, "ann")
        part = await files.put(PNG, "image/png")
        (given_message,) = await files.for_model([photo("u1", part)])
        assert given_message.parts[1]["url"].startswith(f"{part['url']}?expires=")
        text = await files.put(b"a,b", "text/csv")
        (given_message,) = await files.for_model([photo("u1", text)])
        assert given_message.parts[1]["url"] == "data:text/csv;base64,YSxi", "providers fetch images only"


async def test_an_agents_own_files_are_checked_and_told_apart() -> None:
    async with app_of(Converting, media_types=["image/*"]) as app:
        files = await app.attachments.of(Converting, "ann")
        part = await files.put(PNG, "image/png")
        assert await files.put(PNG, "image/png") == part
        assert await files.read({"type": "file", "url": "data:text/plain;base64,aGk="}) == b"hi"
        with pytest.raises(UsageError, match="not among the allowed types"):
            await files.put(b"text", "text/plain")
        with pytest.raises(UsageError, match="neither an attachment nor"):
            await files.read("https://example.org/a.png")
        with pytest.raises(AttachmentMissing, match="not stored"):
            await files.read(part["url"].rpartition("/")[0] + "/" + "0" * 64)
        with pytest.raises(AttachmentMissing, match="not stored"):
            await files.signed_url(part["url"].rpartition("/")[0] + "/" + "0" * 64, expires_in=timedelta(minutes=1))


async def test_messages_of_the_agents_own_code_are_moved_out_too() -> None:
    data = {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{b64encode(PNG).decode()}"}

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Any) -> Any:
            yield "seen"

    async with app_of(Chat) as app:
        ann = app.get(Chat, "ann")
        drawn = UIMessage("a1", "assistant", [{**data, "type": "reasoning-file"}])
        await ann.persist_messages([photo("u1", data), drawn])
        await ann.save_messages([photo("u2", data)])
        stored = await ann.get_messages()
        urls = [part["url"] for message in stored for part in message.parts if "file" in part["type"]]
        assert (len(urls), len(set(urls))) == (3, 1)
        assert attachment_hash(urls[0]) is not None
        given = await (await app.attachments.of(Chat, "ann")).for_model(stored)
        assert {part["url"] for message in given for part in message.parts if "file" in part["type"]} == {data["url"]}


async def test_an_image_that_a_model_makes_becomes_an_attachment() -> None:
    url = f"data:image/png;base64,{b64encode(PNG).decode()}"

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Any) -> Any:
            yield {"type": "file", "url": url, "mediaType": "image/png"}
            yield {"type": "file", "url": url, "mediaType": "application/pdf"}  # it is none, and stays as it is

    async with app_of(Chat) as app:
        answer = (await app.get(Chat, "ann").save_messages("draw")).message
        assert answer is not None
        made, kept = [part for part in answer.parts if part["type"] == "file"]
        assert await (await app.attachments.of(Chat, "ann")).read(made) == PNG
        assert attachment_hash(made["url"]) is not None
        assert kept["url"] == url
