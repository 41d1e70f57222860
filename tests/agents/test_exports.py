"""`app.conversations.export`: what a file has of a conversation, on every store."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from everyword import AIChatAgent, AttachmentOptions, ChatError, Everyword, Principal, tool
from everyword.agents import ConversationExport
from everyword.attachments.keys import blob_key
from everyword.attachments.memory import MemoryBlobStore
from everyword.core.commands import Submit
from everyword.errors import BadInput, ConversationNotFound, UsageError
from everyword.ids import AgentId, MessageId, Millis, RequestId
from everyword.messages.attachments import attachment_hash
from everyword.testing import Gate
from everyword.transcripts.document import LARGE, TextPart, TranscriptHead, TranscriptMessage
from everyword.transcripts.formats import FORMATS, Transcript
from tests.log.stores import STORES, Stores, stores_of
from tests.timeouts import PATIENCE

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 2000
NAME = hashlib.sha256(PNG).hexdigest()
ANN, BOSS = Principal("ann", name="Ann"), Principal("boss", name="Boss")


class Chat(AIChatAgent):
    gate: Gate | None = None

    @tool(needs_approval=True, approval_summary="Pay 5")
    async def pay(self, amount: int) -> str:
        return f"paid {amount}"

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        asked = next(each.text for each in reversed(self.messages) if each.role == "user")
        if asked == "wait" and self.gate is not None:
            yield "so far"
            await self.gate.wait()
        elif asked == "fail":
            raise ChatError("too busy")
        elif asked == "pay":
            async for step in turn.steps():
                call = {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": {"amount": 5}}
                is_first = step.number == 1 and not turn.continuation
                async for chunk in step.run([call] if is_first else ["done"]):
                    yield chunk
        else:
            yield f"You said: {asked}"


@pytest.fixture(params=STORES)
def stores(request: pytest.FixtureRequest) -> Stores:
    return stores_of(request.param, request)


@asynccontextmanager
async def serving(stores: Stores, **options: Any) -> AsyncIterator[Everyword]:
    app = Everyword([Chat], store=stores.make(), **options)
    async with asyncio.timeout(PATIENCE), app:
        yield app


async def messages_of(app: Everyword, **options: Any) -> list[dict[str, Any]]:
    said = json.loads((await app.conversations.export(Chat, "one", format="json", **options)).text)
    messages: list[dict[str, Any]] = said["messages"]
    return messages


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return ["".join(part.get("text", "") for part in each["parts"]) for each in messages]


async def test_a_file_has_questions_answers_calls_and_who_approved_them(stores: Stores) -> None:
    async with serving(stores) as app:
        chat = app.get(Chat, "one").for_principal(ANN)
        await chat.save_messages("hello")
        await chat.save_messages("pay")
        (approval,) = (await app.approvals.list()).approvals
        await app.approvals.answer(approval.id, True, by=BOSS, reason="fine")
        assert await chat.wait_until_stable(PATIENCE)
        await chat.save_messages("fail")
        found = await messages_of(app)
        assert texts(found) == ["hello", "You said: hello", "pay", "done", "fail", ""]
        assert [each["status"] for each in found] == ["done"] * 5 + ["failed"]
        assert found[-1]["error"] == "too busy"
        assert found[0]["author"] == {"id": "ann", "name": "Ann"}
        (call,) = [part for part in found[3]["parts"] if part["type"] == "tool-call"]
        assert (call["input"], call["output"], call["status"]) == ({"amount": 5}, "paid 5", "done")
        note = call["approval"]
        assert (note["status"], note["by"]["name"], note["reason"], note["summary"]) == (
            *("approved", "Boss", "fine", "Pay 5"),
        )
        for form in ("markdown", "html"):
            export = await app.conversations.export("chat", "one", format=form)
            assert export.content == export.text.encode() == b"".join(export)
            for word in ("You said: hello", "Approved by Boss", "too busy", "paid 5"):
                assert word in export.text
        assert (export.media_type, export.filename) == ("text/html; charset=utf-8", "chat-one.html")


async def test_an_answer_that_is_being_written_is_there_so_far(stores: Stores) -> None:
    async with serving(stores) as app:
        Chat.gate = Gate()
        chat = app.get(Chat, "one")
        asking = asyncio.ensure_future(chat.save_messages("wait"))
        await Chat.gate.reached.wait()
        while texts(found := await messages_of(app)) != ["wait", "so far"]:  # noqa: ASYNC110 - until it is committed
            await asyncio.sleep(0)
        assert found[1]["status"] == "running"
        Chat.gate.open()
        await asking
        found = await messages_of(app)
        assert (texts(found), found[1]["status"]) == (["wait", "so far"], "done")


async def ask_again(app: Everyword, request: str, text: str) -> None:
    """Ask as a page does that edits its only question."""
    question = {"id": "q", "role": "user", "parts": [{"type": "text", "text": text}]}
    directory = (await app.service()).directory
    async with directory.attach(AgentId("chat/one")) as loaded:
        await loaded.actor.ask(Submit(RequestId(request), MessageId(f"answer-{request}"), (question,)))
    assert await app.get(Chat, "one").wait_until_stable(PATIENCE)


async def test_one_branch_is_exported_the_one_that_is_shown_or_another(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask_again(app, "r1", "first")
        await ask_again(app, "r2", "second")
        shown = ["second", "You said: second"]
        assert texts(await messages_of(app)) == shown
        assert texts(await messages_of(app, branch="q")) == shown
        assert texts(await messages_of(app, branch="answer-r1")) == ["first", "You said: first"]
        assert texts(await messages_of(app, branch=1)) == ["first", "You said: first"]


async def test_reasoning_and_links_to_files_are_as_asked_for(stores: Stores) -> None:
    async with serving(stores) as app:
        parts = [
            {"type": "reasoning", "text": "hmm"},
            {"type": "file", "url": "/agents/chat/one/attachments/ab", "mediaType": "image/png"},
        ]
        await app.get(Chat, "one").persist_messages([{"id": "a", "role": "assistant", "parts": parts}])
        (found,) = await messages_of(app, reasoning=False, file_url=lambda part: f"https://files.example{part['url']}")
        assert found["parts"] == [
            {
                "type": "file",
                "mediaType": "image/png",
                "url": "https://files.example/agents/chat/one/attachments/ab",
            }
        ]


async def test_what_cannot_be_exported_is_refused(stores: Stores) -> None:
    async with serving(stores) as app:
        with pytest.raises(ConversationNotFound):
            await app.conversations.export(Chat, "one")
        assert not await app.exists(Chat, "one")
        await app.get(Chat, "one").save_messages("hello")
        with pytest.raises(BadInput, match="markdown, html, json"):
            await app.conversations.export(Chat, "one", format="pdf")  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="no such message"):
            await app.conversations.export(Chat, "one", branch="nothing")
        with pytest.raises(BadInput, match="no such message"):
            await app.conversations.export(Chat, "one", branch=99)


async def test_attachments_are_in_the_file_on_every_store(stores: Stores) -> None:
    async with serving(stores, attachments=AttachmentOptions(MemoryBlobStore())) as app:
        files = await app.attachments.of(Chat, "one")
        photo = await files.put(PNG, "image/png", filename="sun.png")
        gone = await files.put(b"%PDF-1.7", "application/pdf", filename="bill.pdf")
        blobs = (await app.service()).directory.attachments
        assert blobs is not None
        await blobs.store.delete(blob_key(AgentId("chat/one"), attachment_hash(gone["url"]) or ""))
        await app.get(Chat, "one").persist_messages([{"id": "q", "role": "user", "parts": [photo, gone]}])
        (found,) = await messages_of(app)
        embedded = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
        assert found["parts"] == [
            {"type": "file", "mediaType": "image/png", "name": "sun.png", "url": embedded},
            {
                "type": "file",
                "mediaType": "application/pdf",
                "name": "bill.pdf",
                "url": gone["url"],
                "leftOut": "not stored any more",
            },
        ]
        page = await app.conversations.export(Chat, "one", format="html")
        assert f'src="{embedded}"' in page.text and "not included: not stored any more" in page.text
        assert await page.read() == page.content == page.text.encode()
        text = await app.conversations.export(Chat, "one")
        assert NAME in text.text and "base64" not in text.text
        for linked in ({"max_embedded_bytes": 0}, {"file_url": lambda part: part["url"]}):
            assert (await messages_of(app, **linked))[0]["parts"][0]["url"] == photo["url"]
        (large,) = await messages_of(app, max_file_bytes=len(PNG) - 1)
        assert large["parts"][0]["leftOut"].startswith("larger than ")
        assert large["parts"][0]["url"] == photo["url"]


async def test_attachments_that_cannot_be_read_at_once_need_await() -> None:
    class Remote(MemoryBlobStore):
        read_now = None  # type: ignore[assignment]

        async def read(self, key: str, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
            yield self._kept[key][0]

    app = Everyword([Chat], store="memory:", attachments=AttachmentOptions(Remote()))
    async with asyncio.timeout(PATIENCE), app:
        photo = await (await app.attachments.of(Chat, "one")).put(PNG, "image/png")
        await app.get(Chat, "one").persist_messages([{"id": "q", "role": "user", "parts": [photo]}])
        export = await app.conversations.export(Chat, "one", format="json")
        with pytest.raises(UsageError, match=r"await export\.read\(\)"):
            _ = export.content
        (found,) = json.loads(await export.read())["messages"]
        assert found["parts"][0]["url"] == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


async def test_a_large_message_is_written_while_other_agents_go_on() -> None:
    loop, others = asyncio.get_running_loop(), threading.Event()

    def written(message: TranscriptMessage, is_first: bool) -> Iterator[str]:
        loop.call_soon_threadsafe(others.set)
        assert others.wait(PATIENCE), "what writes the message holds up the others"
        yield "written"

    message = TranscriptMessage("user", Millis(0), "done", [TextPart("x" * LARGE), TextPart("x")])
    head = TranscriptHead("A title", Millis(0), Millis(0), Millis(0))
    form = FORMATS["markdown"]._replace(message=written)
    export = ConversationExport("text/markdown", "a.md", Transcript(form, head, lambda: iter([message])))
    assert (await export.read()).endswith(b"written")
