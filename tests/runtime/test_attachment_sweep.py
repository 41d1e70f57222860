"""Attachments without a message are deleted when their time is over, and no others, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import os
from asyncio import FIRST_COMPLETED
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from everyword import AIChatAgent, AttachmentOptions, Everyword, Turn, UIMessage
from everyword.attachments.base import INCOMING, pieces_of
from everyword.attachments.folder import FolderBlobStore
from everyword.attachments.keys import blob_key, folder_of, hash_in, owner_key, unused_in
from everyword.attachments.memory import MemoryBlobStore
from everyword.errors import LogUnavailable
from everyword.ids import AgentId, Millis
from everyword.log.memory import MemoryLog
from everyword.messages.attachments import attachment_hash
from everyword.runtime.attachment_sweep import AttachmentSweep, folders
from everyword.runtime.attachments import Attachments
from everyword.runtime.clock import SystemClock
from everyword.testing import Gate
from tests.timeouts import PATIENCE

ANN = AgentId("chat/ann")


class Chat(AIChatAgent):
    gate: Gate | None = None

    async def on_chat_message(self, turn: Turn) -> Any:
        if self.gate is not None:
            await self.gate.wait()
        yield "Hello."


class Slow(MemoryBlobStore):
    """A store in which a deletion waits until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def delete(self, key: str) -> None:
        if hash_in(key) is not None:
            self.begun.set()
            await self.go_on.wait()
        await super().delete(key)


class Noticing(FolderBlobStore):
    """A folder that tells which content was deleted first."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.deleted: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def delete(self, key: str) -> None:
        await super().delete(key)
        if not self.deleted.done():
            self.deleted.set_result(key)


@asynccontextmanager
async def serving(store: Any = None, grace: float = 0.0, **options: Any) -> AsyncIterator[Everyword]:
    blobs = store if store is not None else MemoryBlobStore()
    given = AttachmentOptions(store=blobs, grace=timedelta(seconds=grace))
    app = Everyword([Chat], **{"store": "memory:", **options}, attachments=given)
    app.grace = 0.0
    async with app:
        yield app


def saying(part: dict[str, Any], message_id: str = "u1") -> UIMessage:
    return UIMessage(message_id, "user", [{"type": "text", "text": "look"}, part])


def hash_of(part: dict[str, Any]) -> str:
    found = attachment_hash(part["url"])
    assert found is not None
    return found


async def test_only_what_no_message_refers_to_is_deleted() -> None:
    blobs = MemoryBlobStore()
    async with serving(blobs) as app:
        files = await app.attachments.of(Chat, "ann")
        kept, lost = await files.put(b"kept", "text/plain"), await files.put(b"lost", "text/plain")
        await app.get(Chat, "ann").save_messages([saying(kept)])
        assert await app.attachments.sweep() == 1
        assert await blobs.find(blob_key(ANN, hash_of(lost))) is None
        assert await files.read(kept) == b"kept"
        assert await app.attachments.sweep() == 0


async def test_an_upload_is_kept_for_its_grace_time_and_has_it_anew_when_it_is_sent_again() -> None:
    async with serving(grace=3600) as app:
        files = await app.attachments.of(Chat, "ann")
        part = await files.put(b"later", "text/plain")
        assert await app.attachments.sweep() == 0
        assert await files.read(part) == b"later"


async def test_an_attachment_has_its_grace_time_after_its_last_reference(tmp_path: Path) -> None:
    def age() -> None:
        for path in tmp_path.rglob("*"):
            os.utime(path, (1, 1))

    blobs = FolderBlobStore(tmp_path)
    async with serving(blobs, grace=3600) as app:
        files, ann = await app.attachments.of(Chat, "ann"), app.get(Chat, "ann")
        part = await files.put(b"photo", "text/plain")
        for again in range(2):
            await ann.save_messages([saying(part, f"u{again}")])
            age()
            assert await app.attachments.sweep() == 0
            await ann.clear_history()
            assert await app.attachments.sweep() == 0, "a page may put the message back"
            assert await files.read(part) == b"photo"
        age()
        assert await app.attachments.sweep() == 1
        assert [blob.key async for blob in blobs.list("")] == [owner_key(folder_of(ANN))]


async def test_a_sweep_during_the_deletion_of_a_conversation_leaves_no_note() -> None:
    class Deleting(MemoryBlobStore):
        """A store from which the conversation is deleted while the sweep stores a note about its only content."""

        async def put(self, key: str, pieces: Any) -> None:
            if unused_in(key) is not None:
                await app.get(Chat, "ann").destroy()
            await super().put(key, pieces)

    blobs = Deleting()
    async with serving(blobs, grace=3600) as app:
        await app.get(Chat, "ann").save_messages("hi")
        await (await app.attachments.of(Chat, "ann")).put(b"unused", "text/plain")
        await app.attachments.sweep()
        assert [blob.key async for blob in blobs.list("")] == []


async def test_what_a_sweep_noted_of_a_deleted_conversation_is_deleted() -> None:
    blobs = MemoryBlobStore()
    async with serving(blobs, grace=3600) as app:
        await (await app.attachments.of(Chat, "ann")).put(b"unused", "text/plain")
        await app.attachments.sweep()
        noted = [blob.key async for blob in blobs.list("") if unused_in(blob.key) is not None]
        assert len(noted) == 1
        await app.get(Chat, "ann").destroy()
        await blobs.put(noted[0], pieces_of(b""))  # a sweep at the same time did
        await app.attachments.sweep()
        assert [blob.key async for blob in blobs.list("")] == []


async def test_states_and_hidden_branches_keep_their_attachments() -> None:
    async with serving() as app:
        files, ann = await app.attachments.of(Chat, "ann"), app.get(Chat, "ann")
        parts = [await files.put(text.encode(), "text/plain") for text in ("state", "old branch")]
        await ann.set_state({"logo": parts[0]["url"]})
        await ann.save_messages([saying(parts[1])])
        assert await app.attachments.sweep() == 0
        await ann.clear_history()
        assert await app.attachments.sweep() == 1
        assert await files.read(parts[0]) == b"state"


async def test_nothing_is_deleted_while_a_turn_is_open() -> None:
    gate = Gate()

    class Waiting(Chat):
        kind = "chat"

    Waiting.gate = gate
    blobs = MemoryBlobStore()
    app = Everyword([Waiting], store="memory:", attachments=AttachmentOptions(store=blobs, grace=timedelta(seconds=0)))
    app.grace = 0.0
    async with app:
        files = await app.attachments.of("chat", "ann")
        asking = asyncio.create_task(app.get(Waiting, "ann").save_messages("hi"))
        await gate.reached.wait()
        part = await files.put(b"for the answer", "text/plain")
        assert await app.attachments.sweep() == 0
        gate.open()
        await asking
        assert await app.attachments.sweep() == 1
        assert await blobs.find(blob_key(ANN, hash_of(part))) is None


async def test_a_photo_that_is_sent_while_it_is_being_deleted_is_stored_again() -> None:
    blobs = Slow()
    async with serving(blobs) as app:
        files = await app.attachments.of(Chat, "ann")
        part = await files.put(b"x" * 20_000, "text/plain")
        sweeping = asyncio.create_task(app.attachments.sweep())
        await blobs.begun.wait()
        again = asyncio.create_task(files.put(b"x" * 20_000, "text/plain"))
        blobs.go_on.set()
        assert await sweeping == 1
        assert await again == part
        assert await files.read(part) == b"x" * 20_000


async def test_a_reference_that_is_committed_during_a_sweep_is_noticed() -> None:
    """The sweep has read the messages; before it deletes, a question with the URL comes, is stored and answered."""
    async with serving() as app:
        files, ann = await app.attachments.of(Chat, "ann"), app.get(Chat, "ann")
        part = await files.put(b"late", "text/plain")
        await ann.save_messages("hi")
        directory = (await app.service()).directory
        read = directory.store.kept
        asked: list[Any] = []

        async def read_then_ask(agent: AgentId) -> Any:
            rows = await read(agent)
            if len(asked) == 1:  # the second look, as the owner
                await ann.save_messages([saying(part)])
            asked.append(agent)
            return rows

        directory.store.kept = read_then_ask  # type: ignore[method-assign]
        assert await app.attachments.sweep() == 0
        assert len(asked) >= 2
        assert await files.read(part) == b"late"


async def test_what_a_crash_left_of_uploads_is_deleted(tmp_path: Path) -> None:
    blobs = FolderBlobStore(tmp_path)
    for name in ("cut-off", "still-written"):
        await blobs.put(f"{INCOMING}/{name}", pieces_of(b"half"))
    os.utime(tmp_path / INCOMING / "cut-off", (1, 1))
    async with serving(blobs) as app:
        await app.attachments.sweep()  # the app may have done it by itself already
        assert [blob.key async for blob in blobs.list("")] == [f"{INCOMING}/still-written"]


async def test_an_agent_that_is_only_an_upload_is_not_created_by_the_sweep() -> None:
    async with serving() as app:
        await (await app.attachments.of(Chat, "ann")).put(b"x", "text/plain")
        assert await app.attachments.sweep() == 1
        assert await (await app.service()).directory.store.agents() == []


async def test_two_sweeps_at_once_delete_once_and_a_hold_waits_for_the_deletion() -> None:
    blobs = Slow()
    async with serving(blobs) as app:
        files = await app.attachments.of(Chat, "ann")
        await files.put(b"x" * 20_000, "text/plain")
        first = asyncio.create_task(app.attachments.sweep())
        await blobs.begun.wait()
        second = asyncio.create_task(app.attachments.sweep())
        again = asyncio.create_task(files.put(b"x" * 20_000, "text/plain"))
        blobs.go_on.set()
        await asyncio.wait([first, second, again])
        assert [task.exception() for task in (first, second, again)] == [None, None, None]


async def test_a_conversation_that_another_node_has_deleted_gets_a_swept_folder_again() -> None:
    blobs = MemoryBlobStore()
    here, there = Attachments(blobs), Attachments(blobs)
    await here.put(ANN, b"one", "text/plain", None)
    await there.drop(ANN)
    await here.put(ANN, b"two", "text/plain", None)
    assert [folder.agent async for folder in folders(blobs)] == [ANN]


async def test_an_upload_into_a_folder_that_is_deleted_meanwhile_is_swept() -> None:
    class Deleting(MemoryBlobStore):
        """A store in which the conversation is deleted right before the content of an upload is put into it."""

        async def move(self, source: str, target: str) -> None:
            await attachments.drop(ANN)
            await super().move(source, target)

    attachments = Attachments(blobs := Deleting())
    await attachments.upload(ANN, pieces_of(b"late"), "text/plain", None)
    assert [(folder.agent, len(folder.blobs)) async for folder in folders(blobs)] == [(ANN, 1)]


async def test_destroying_an_agent_deletes_its_attachments_and_no_others() -> None:
    blobs = MemoryBlobStore()
    async with serving(blobs, grace=3600) as app:
        for name in ("ann", "bob"):
            files = await app.attachments.of(Chat, name)
            await app.get(Chat, name).save_messages([saying(await files.put(b"photo", "text/plain"))])
        await app.get(Chat, "ann").destroy()
        left = [blob.key async for blob in blobs.list("agents/")]
        assert len(left) == 2
        assert all(key.startswith(blob_key(AgentId("chat/bob"), "")) for key in left)


async def test_an_agent_that_cannot_be_loaded_does_not_stop_the_sweep_of_others() -> None:
    class Broken(AIChatAgent):
        def __init__(self, *given: Any, **named: Any) -> None:
            if is_broken:
                raise ValueError("broken")
            super().__init__(*given, **named)

    is_broken = False
    blobs = MemoryBlobStore()
    options = AttachmentOptions(store=blobs, grace=timedelta(seconds=0))
    store = MemoryLog()
    async with Everyword([Broken, Chat], store=store, attachments=options) as app:
        for cls in (Broken, Chat, Broken):
            name = f"{cls.__name__}-{len([blob async for blob in blobs.list('')])}"
            await app.get(cls, name).persist_messages([UIMessage("u1", "user", [{"type": "text", "text": "hi"}])])
            await (await app.attachments.of(cls, name)).put(b"unused", "text/plain")
    is_broken = True
    async with Everyword([Broken, Chat], store=store, attachments=options) as app:
        await app.attachments.sweep()
    left = [folder.agent for folder in [each async for each in folders(blobs)] if folder.blobs]
    assert len(left) == 2
    assert all(str(agent).startswith("broken/") for agent in left)


async def test_the_app_sweeps_again_after_its_database_was_away() -> None:
    swept = asyncio.Event()

    class Pacing(SystemClock):
        """A clock that does not wait between two sweeps, until one has deleted something."""

        async def sleep_until(self, at: Millis) -> None:
            if [blob async for blob in blobs.list("agents/") if hash_in(blob.key) is not None]:
                await asyncio.sleep(0)
            else:
                swept.set()
                await asyncio.Event().wait()

    blobs = MemoryBlobStore()
    async with serving(blobs) as app:
        await (await app.attachments.of(Chat, "ann")).put(b"left", "text/plain")
        await app.get(Chat, "ann").save_messages("hi")
        directory = (await app.service()).directory
        directory.clock, read, asked = Pacing(), directory.store.conversation, 0

        async def failing_once(agent: AgentId) -> Any:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise LogUnavailable("unable to read; the database is away")
            return await read(agent)

        directory.store.conversation = failing_once  # type: ignore[method-assign]
        sweeping = asyncio.create_task(AttachmentSweep(directory).keep_sweeping())
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait({sweeping, waiting := asyncio.create_task(swept.wait())}, return_when=FIRST_COMPLETED)
        assert swept.is_set()
        sweeping.cancel()
        waiting.cancel()
        await asyncio.wait({sweeping, waiting})


async def test_the_app_sweeps_by_itself_also_what_another_process_left(tmp_path: Path) -> None:
    blobs = FolderBlobStore(tmp_path)
    async with serving(blobs, grace=3600) as app:
        part = await (await app.attachments.of(Chat, "ann")).put(b"left", "text/plain")
    noticing = Noticing(tmp_path)
    async with serving(noticing):
        async with asyncio.timeout(PATIENCE):
            assert await noticing.deleted == blob_key(ANN, hash_of(part))
        assert await noticing.find(blob_key(ANN, hash_of(part))) is None
