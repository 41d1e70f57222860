"""A process that is killed at any step of storing or deleting attachments leaves no message without its photos."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from everyword import Everyword
from everyword.attachments.base import INCOMING, pieces_of
from everyword.attachments.keys import blob_key, hash_in, owner_key
from everyword.cli import main
from everyword.ids import AgentId
from everyword.runtime.attachment_sweep import stored_references
from tests.attachments.room import ANN, BOB, NAMES, PHOTOS, UPLOADED, Chat, ask, blobs_in, question, running
from tests.forked_processes import fork_process


async def killed_at_each_step(folder: Path, task: str, when: str, before: Path | None = None) -> AsyncIterator[Path]:
    """Yield what each kill leaves, of an empty folder or a copy of one; check that all kinds of steps were met."""
    met: set[str] = set()
    for number in range(200):
        left = folder / f"killed-{number}"
        shutil.copytree(before, left) if before is not None else left.mkdir()
        child = fork_process("tests.attachments.killed", str(left), task, str(number), when)
        step = child.read(until=None).strip()
        child.kill()
        assert step, "the process failed"
        yield left
        shutil.rmtree(left)
        if step == "done":
            break
        met.add(step)
    assert met == STEPS[task]


STEPS = {
    "ask": {"find", "put", "rename", "append"},
    "ask-checked": {"find", "put", "move", "rename", "append"},
    "upload": {"find", "put", "move", "rename"},
    "sweep": {"find", "put", "rename", "delete"},
    "destroy": {"append", "delete"},
}


@pytest.fixture
def played(tmp_path: Path) -> Path:
    """A folder for `play`."""
    folder = tmp_path / "played"
    folder.mkdir()
    return folder


@pytest.mark.crash
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("task", ["ask", "ask-checked"])
async def test_a_question_with_photos_is_there_wholly_or_not_at_all(task: str, when: str, tmp_path: Path) -> None:
    was_there: set[bool] = set()
    async for left in killed_at_each_step(tmp_path, task, when):
        async with running(left) as (app, client):
            await app.start()
            stored = await app.get(Chat, "ann").get_messages() if await app.exists(Chat, "ann") else []
            was_there.add(bool(stored))
            for message in stored[:1]:
                await check_photos(app, message.parts)
            await check_references(app, left)
            await ask(client, question(*PHOTOS))
            asked, answer = await app.get(Chat, "ann").get_messages()
            await check_photos(app, asked.parts)
            assert (asked.id, answer.text) == ("u1", "Nice.")
        await check_swept(left, NAMES)
    assert was_there == {True, False}


@pytest.mark.crash
@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_upload_is_stored_wholly_or_swept_and_can_be_sent_again(when: str, tmp_path: Path) -> None:
    sizes: set[int] = set()
    async for left in killed_at_each_step(tmp_path, "upload", when):
        sizes |= {blob.size async for blob in blobs_in(left).list("agents/") if hash_in(blob.key) is not None}
        async with running(left) as (app, client):
            part = (await client.post("attachments", content=UPLOADED, headers={"content-type": "image/png"})).json()
            assert (await client.get(part["url"].removeprefix("/agents/chat/ann/"))).content == UPLOADED
            await app.attachments.sweep()
            assert await (await app.attachments.of(Chat, "ann")).read(part) == UPLOADED, "its time is not over"
        await check_swept(left, [])
        assert [blob.key async for blob in blobs_in(left).list("")] == []
    assert sizes == {len(UPLOADED)}


@pytest.mark.crash
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_sweep_goes_on_after_a_kill_and_keeps_what_messages_have(
    when: str, tmp_path: Path, played: Path
) -> None:
    async for left in killed_at_each_step(tmp_path, "sweep", when, await play(played)):
        again = question(b"\x89PNG\r\n\x1a\n" + b"1" * 20_000, message_id="u2")
        async with running(left) as (app, client):
            stored = await app.get(Chat, "ann").get_messages()
            await check_photos(app, stored[0].parts)
            await ask(client, *[message.to_dict() for message in stored], again)  # one that the sweep may have deleted
            await check_references(app, left)
            kept = await stored_references((await app.service()).directory.store, [ANN])
        assert len(kept) == 3
        await check_swept(left, kept)
        assert not (left / "chat.db.attachments" / owner_key(blob_key(BOB, "").rpartition("/")[0])).exists()


@pytest.mark.crash
@pytest.mark.parametrize("when", ["before", "after"])
async def test_destroying_goes_on_after_a_kill_and_leaves_no_photos(when: str, tmp_path: Path, played: Path) -> None:
    existed: set[bool] = set()
    async for left in killed_at_each_step(tmp_path, "destroy", when, await play(played, is_swept=True)):
        async with running(left) as (app, _):
            await app.start()
            existed.add(await app.exists(Chat, "ann"))
            if await app.exists(Chat, "ann"):
                await check_references(app, left)
                await app.get(Chat, "ann").destroy()
            keys = [blob.key async for blob in blobs_in(left).list("agents/")]
            assert keys, "bob has some"
            assert not [key for key in keys if key.startswith(blob_key(ANN, ""))]
    assert False in existed


async def play(folder: Path, *, is_swept: bool = False) -> Path:
    """Make a conversation with two photos, uploads that nothing refers to in two conversations, and half an upload.

    With `is_swept`, a sweep at the start of an app has nothing to do.
    """
    async with running(folder) as (app, client):
        await ask(client, question(*PHOTOS))
        for name in ("ann", "bob"):
            files = await app.attachments.of(Chat, name)
            for number in range(2):
                await files.put(b"\x89PNG\r\n\x1a\n" + str(number).encode() * 20_000, "image/png")
        if is_swept:
            await app.attachments.sweep()
    await blobs_in(folder).put(f"{INCOMING}/cut-off", pieces_of(b"half"))
    return folder


async def check_photos(app: Everyword, parts: Any) -> None:
    files = await app.attachments.of(Chat, "ann")
    assert [await files.read(part) for part in parts if part["type"] == "file"] == PHOTOS


async def check_references(app: Everyword, folder: Path) -> None:
    """Check that every attachment that a message refers to is there."""
    store, blobs = (await app.service()).directory.store, blobs_in(folder)
    for sha256 in await stored_references(store, [AgentId("chat/ann")]):
        assert await blobs.find(blob_key(ANN, sha256)) is not None


async def check_swept(folder: Path, names: Any) -> None:
    """Check that a sweep after the grace time leaves these, which are all that messages refer to, and no half ones."""
    for part in (folder / "chat.db.attachments" / INCOMING).glob("*"):
        os.utime(part, (1, 1))
    async with running(folder, grace=0) as (app, _):
        await app.attachments.sweep()
        await check_references(app, folder)
        keys = [blob.key async for blob in blobs_in(folder).list("")]
        assert sorted(name for name in map(hash_in, keys) if name is not None) == sorted(names)
        assert not [key for key in keys if key.startswith(INCOMING)]
    if (folder / "chat.db").exists():
        assert await asyncio.to_thread(main, ["doctor", "--no-app", "--db", str(folder / "chat.db")]) == 0
