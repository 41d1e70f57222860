"""Commands carry attachments with their conversations, check them, and delete those that nothing refers to."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest

from everyword import AIChatAgent, Everyword, Turn, UIMessage
from everyword.attachments.base import INCOMING, BlobStore, pieces_of
from everyword.attachments.folder import FolderBlobStore
from everyword.attachments.keys import blob_key, hash_in
from everyword.cli import main
from everyword.cli.agent_file import unpack
from everyword.ids import AgentId
from everyword.messages.attachments import attachment_hash
from tests.attachments.s3 import environment_of, new_bucket, running_s3

PHOTO = b"\x89PNG\r\n\x1a\n" + b"photo" * 200_000
ANN = AgentId("chat/ann")


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> object:
        yield "Nice."


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A file with one conversation with one photo, and one upload that no message refers to."""
    path = str(tmp_path / "chat.db")
    asyncio.run(_make(path))
    return path


async def _make(path: str) -> None:
    async with Everyword([Chat], store=path) as app:
        files = await app.attachments.of(Chat, "ann")
        part = await files.put(PHOTO, "image/png", filename="a.png")
        await files.put(b"unused", "text/plain")
        await app.get(Chat, "ann").save_messages([UIMessage("u1", "user", [part])])


def read(path: str, name: str) -> tuple[str, bytes]:
    """Return the URL of the photo of a conversation, and its content, as the agent reads it."""

    async def run() -> tuple[str, bytes]:
        async with Everyword([Chat], store=path) as app:
            question = (await app.get(Chat, name).get_messages())[0]
            url = str(question.parts[0]["url"])
            return url, await (await app.attachments.of(Chat, name)).read(url)

    return asyncio.run(run())


def kept(store: BlobStore) -> list[str]:
    async def run() -> list[str]:
        return sorted([blob.key async for blob in store.list("agents/") if hash_in(blob.key) is not None])

    return asyncio.run(run())


def test_an_export_has_the_attachments_and_imports_under_another_name(db: str, tmp_path: Path) -> None:
    file, other = str(tmp_path / "ann.gz"), str(tmp_path / "other.db")
    assert main(["export", "chat/ann", "--db", db, "-o", file]) == 0
    assert list(unpack(file).attachments.values()) == [PHOTO]
    for _ in range(2):
        assert main(["import", file, "--as", "chat/bob", "--db", other]) == 0
    url, content = read(other, "bob")
    assert content == PHOTO
    assert url.startswith("/agents/chat/bob/attachments/")


def test_a_file_without_attachments_is_readable_by_older_releases(db: str, tmp_path: Path) -> None:
    file = tmp_path / "ann.jsonl"
    assert main(["export", "chat/ann", "--db", db, "-o", str(file), "--attachments", str(tmp_path / "none")]) == 0
    assert json.loads(file.read_text().splitlines()[0])["version"] == 1
    assert main(["export", "chat/ann", "--db", db, "-o", str(file), "--force"]) == 0
    assert json.loads(file.read_text().splitlines()[0])["version"] == 3


def test_a_damaged_attachment_in_a_file_is_refused(db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ann.jsonl"
    main(["export", "chat/ann", "--db", db, "-o", str(file)])
    lines = file.read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith('{"content"'))
    file.write_text("\n".join([*lines[:place], *lines[place + 1 :], ""]))
    assert main(["import", str(file), "--db", str(tmp_path / "other.db")]) == 2
    assert "checksum" in capsys.readouterr().err


def test_a_fork_has_attachments_of_its_own(db: str) -> None:
    assert main(["fork", "chat/ann", "bob", "--db", db]) == 0
    assert main(["destroy", "chat/ann", "--yes", "--db", db]) == 0
    url, content = read(db, "bob")
    assert content == PHOTO
    assert "/chat/bob/" in url
    assert len(kept(FolderBlobStore(f"{db}.attachments"))) == 1


def test_a_fork_in_python_has_attachments_of_its_own(tmp_path: Path) -> None:
    async def run() -> None:
        async with Everyword([Chat], store=str(tmp_path / "chat.db")) as app:
            part = await (await app.attachments.of(Chat, "ann")).put(PHOTO, "image/png")
            ann = app.get(Chat, "ann")
            await ann.save_messages([UIMessage("u1", "user", [part])])
            await ann.versions.fork("u1", "bob")
            await ann.destroy()
            question = (await app.get(Chat, "bob").get_messages())[0]
            assert await (await app.attachments.of(Chat, "bob")).read(question.parts[0]) == PHOTO
            assert "/chat/bob/" in question.parts[0]["url"]

    asyncio.run(run())


def test_doctor_names_what_is_missing_and_what_has_no_agent(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--no-app", "--json", "--db", db]) == 0
    assert json.loads(capsys.readouterr().out)["attachments"] == {"missing": [], "orphans": []}
    url, _ = read(db, "ann")
    sha256 = attachment_hash(url)
    assert sha256 is not None
    folder = FolderBlobStore(f"{db}.attachments")
    asyncio.run(folder.delete(blob_key(ANN, sha256)))
    (folder.folder / "agents" / "feed").mkdir()
    (folder.folder / "agents" / "feed" / "agent").write_text("chat/gone")
    main(["doctor", "--no-app", "--json", "--db", db])
    found = json.loads(capsys.readouterr().out)["attachments"]
    assert found == {"missing": [{"agent": "chat/ann", "sha256": sha256}], "orphans": ["agents/feed"]}
    main(["doctor", "--no-app", "--db", db])
    assert "chat/ann: 1 attachment of its messages not stored" in capsys.readouterr().err


def test_gc_deletes_what_no_message_refers_to(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = FolderBlobStore(f"{db}.attachments")
    assert len(kept(folder)) == 2
    assert main(["gc", "--db", db]) == 0
    assert len(kept(folder)) == 2, "it is not a day old"
    assert main(["gc", "--keep", "0s", "--db", db]) == 0
    assert "1 attachment" in capsys.readouterr().out
    assert len(kept(folder)) == 1
    assert read(db, "ann")[1] == PHOTO


@pytest.mark.parametrize("is_served", [False, True])
def test_a_dry_run_counts_the_attachments_that_gc_deletes(
    db: str, is_served: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = FolderBlobStore(f"{db}.attachments")
    asyncio.run(folder.put(f"{INCOMING}/cut-off", pieces_of(b"half")))
    assert (told("gc", "--dry-run", db=db, capsys=capsys))["attachments"] == 0, "they are not a day old"

    async def foretell() -> dict[str, int]:
        if not is_served:
            return await asyncio.to_thread(told, "gc", "--dry-run", "--keep", "0s", db=db, capsys=capsys)
        async with Everyword([Chat], store=db) as app:
            await app.attachments.sweep()  # the first sweep is over: what it is writing would be counted, too
            return await asyncio.to_thread(told, "gc", "--dry-run", "--keep", "0s", db=db, capsys=capsys)

    found = asyncio.run(foretell())
    assert (found["attachments"], found["attachmentBytes"]) == (2, len(b"unused") + len(b"half"))
    assert len(kept(folder)) == 2, "nothing was deleted"
    main(["gc", "--dry-run", "--keep", "0s", "--db", db])
    assert "; 2 attachments, 10 bytes; nothing was changed" in capsys.readouterr().out
    done = told("gc", "--keep", "0s", db=db, capsys=capsys)
    assert (done["attachments"], done["attachmentBytes"]) == (2, 10)
    assert told("gc", "--dry-run", "--keep", "0s", db=db, capsys=capsys)["attachments"] == 0


@pytest.mark.parametrize("is_beside", [True, False])
def test_a_copy_says_what_it_leaves_out_and_copies_it_when_made_again(
    is_beside: bool, db: str, postgres_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = Path(f"{db}.attachments"), tmp_path / "shared"
    given = [] if is_beside else ["--from-attachments", str(source.rename(tmp_path / "elsewhere"))]
    assert main(["copy", db, postgres_url, *given]) == 0
    assert "2 attachments left out; name the place that the app on the database uses" in capsys.readouterr().err
    assert main(["doctor", "--no-app", "--json", "--db", postgres_url, "--attachments", str(target)]) == 0
    assert len(json.loads(capsys.readouterr().out)["attachments"]["missing"]) == 1
    for count in (2, 0):
        assert main(["copy", db, postgres_url, *given, "--attachments", str(target), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["attachments"] == count
        assert len(kept(FolderBlobStore(target))) == 2
    main(["doctor", "--no-app", "--json", "--db", postgres_url, "--attachments", str(target)])
    assert json.loads(capsys.readouterr().out)["attachments"] == {"missing": [], "orphans": []}


def test_conversations_travel_between_a_file_and_a_database_with_a_bucket(
    db: str, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_s3() as url:
        for name, value in environment_of(url).items():
            monkeypatch.setenv(name, value)
        there = ["--db", postgres_url, "--attachments", f"s3://{new_bucket(url)}/chat"]
        assert main(["copy", db, postgres_url, *there[2:]]) == 0
        assert main(["fork", "chat/ann", "bob", *there]) == 0
        assert main(["destroy", "chat/ann", "--yes", *there]) == 0
        assert main(["gc", "--keep", "0s", *there]) == 0
        assert main(["export", "chat/bob", "-o", str(tmp_path / "bob.gz"), *there]) == 0
        capsys.readouterr()
        assert main(["doctor", "--no-app", "--json", *there]) == 0
        assert json.loads(capsys.readouterr().out)["attachments"] == {"missing": [], "orphans": []}
    back = str(tmp_path / "back.db")
    assert main(["import", str(tmp_path / "bob.gz"), "--as", "chat/cid", "--db", back]) == 0
    assert told("gc", "--keep", "0s", db=back, capsys=capsys)["attachments"] == 0
    url, content = read(back, "cid")
    assert (content, "/chat/cid/" in url) == (PHOTO, True)


def told(*arguments: str, db: str, capsys: pytest.CaptureFixture[str]) -> dict[str, int]:
    """Run a command; return the JSON that it writes."""
    capsys.readouterr()
    assert main([*arguments, "--json", "--db", db]) == 0
    written: dict[str, int] = json.loads(capsys.readouterr().out)
    return written


def test_gc_removes_the_folder_of_an_agent_that_is_only_an_upload(tmp_path: Path) -> None:
    db = str(tmp_path / "chat.db")

    async def upload() -> None:
        async with Everyword([Chat], store=db) as app:
            await (await app.attachments.of(Chat, "bob")).put(b"unused", "text/plain")

    async def left() -> tuple[list[str], bool]:
        async with Everyword([Chat], store=db) as app:
            blobs = FolderBlobStore(f"{db}.attachments").list("agents/")
            return [blob.key async for blob in blobs], await app.exists(Chat, "bob")

    asyncio.run(upload())
    assert main(["doctor", "--no-app", "--db", db]) == 0
    assert main(["gc", "--keep", "0s", "--db", db]) == 0
    assert asyncio.run(left()) == ([], False)


def test_destroying_an_agent_deletes_its_attachments(db: str) -> None:
    assert main(["destroy", "chat/ann", "--yes", "--db", db]) == 0
    assert kept(FolderBlobStore(f"{db}.attachments")) == []


def test_a_copy_into_a_database_has_the_attachments(db: str, postgres_url: str, tmp_path: Path) -> None:
    place = tmp_path / "shared"
    assert main(["copy", db, postgres_url, "--attachments", str(place)]) == 0
    assert kept(FolderBlobStore(place)) == kept(FolderBlobStore(f"{db}.attachments"))


def test_a_conversation_for_people_has_its_attachments(db: str, tmp_path: Path) -> None:
    out = tmp_path / "ann.html"
    export = ["export", "chat/ann", "--db", db, "--format", "html", "-o", str(out), "--force"]
    encoded = base64.b64encode(PHOTO).decode()
    assert main(export) == 0
    assert f'src="data:image/png;base64,{encoded}"' in out.read_text(encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    Path(f"{db}.attachments").rename(elsewhere)
    assert main(export) == 0
    assert "not included: not stored any more" in out.read_text(encoding="utf-8")
    assert main([*export, "--attachments", str(elsewhere)]) == 0
    assert encoded in out.read_text(encoding="utf-8")
    assert main([*export, "--attachments", str(elsewhere), "--max-embedded-mib", "0"]) == 0
    assert "data:" not in out.read_text(encoding="utf-8").partition("<main>")[2]
