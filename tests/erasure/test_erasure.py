"""A person is erased: none of the person's words is left in the store, and everybody else's conversation goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from everyword.cli import main
from everyword.log.postgres.address import DatabaseAddress
from tests.erasure.room import ANN, BOB, WORD, asked, make_app, play, tab
from tests.server.kit import bare, connect, serving


def words_in_files(folder: Path) -> list[str]:
    """Return the files in which the word is, with what surrounds it."""
    found = []
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        at = content.find(WORD.encode())
        if at >= 0:
            found.append(f"{path.name}: {content[max(at - 80, 0) : at + 60]!r}")
        elif WORD in path.name:
            found.append(path.name)
    return found


async def words_in_tables(url: str) -> list[str]:
    from tests.nodes.test_nodes import look

    schema = DatabaseAddress.parse(url).schema
    tables = await look(url, f"select table_name from information_schema.tables where table_schema = '{schema}'")
    found = []
    for (table,) in tables:
        for row in await look(url, f"select * from everyword.{table}"):
            for value in row:
                text = value if isinstance(value, bytes) else str(value).encode()
                if WORD.encode() in text:
                    found.append(f"{table}: {text[:300]!r}")
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "log.db")
    return str(request.getfixturevalue("postgres_url"))


async def words_left(store: str) -> list[str]:
    return await words_in_tables(store) if store.startswith("postgres") else words_in_files(Path(store).parent)


async def test_no_word_of_an_erased_person_is_left_and_the_others_go_on(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app = make_app(store)
    async with serving(app) as url, connect(url) as client:
        await play(app, url, client)
        assert await words_left(store), "the words were there"
        before = (await client.get("/agents/room/room/get-messages", headers={"x-user": BOB})).json()
        async with tab(url, BOB) as page:
            report = await app.principals.erase(ANN)
            await page.closed_after_frames()
        assert report.is_complete, report
        assert report.id.startswith("erased-") and WORD not in repr(report)
        deleted = [each for each in report.agents if each.is_deleted]
        assert [(each.kind, each.name, each.counts["agents"]) for each in deleted] == [("room", None, 2)]
        (room,) = [each for each in report.agents if each.name == "room"]
        assert room.counts["messages"] == 3 and room.counts["answers to calls"] == 2

        after = (await client.get("/agents/room/room/get-messages", headers={"x-user": BOB})).json()
        assert [each["role"] for each in after] == [each["role"] for each in before]
        texts = [part["text"] for message in after for part in message["parts"] if part["type"] == "text"]
        assert texts.count("This message was deleted.") == 2 and "Hello from Bob" in texts
        assert after[0] == before[0], "Bob's own message is as it was"
        async with tab(url, BOB) as page:
            frame = await page.until(lambda frame: frame["type"] == "cf_agent_chat_messages")
            assert bare(frame["messages"]) == bare(after), "a client that comes back is sent the new conversation"
            await asked(page, "b9", "and now?")
        found = await app.conversations.get("room", "room", principal=BOB)
        assert found is not None and found.owner == BOB and found.title == "Hello from Bob"
        assert {each.id for each in found.participants} == {BOB, report.id}
        assert await app.conversations.list(principal=ANN) is not None
        (again,) = await app.principals.erasures()
        assert again == report
        second = await app.principals.erase(ANN)
        assert second.is_complete and second.agents == []
    assert await words_left(store) == []
    assert await asyncio.to_thread(main, ["doctor", "--no-app", "--db", store]) == 0, capsys.readouterr()
    assert await asyncio.to_thread(main, ["rebuild", "--json", "--db", store]) == 0
    said = capsys.readouterr().out
    assert '"changed":0,"failed":0' in said, said
    app = make_app(store)
    async with serving(app) as url, tab(url, BOB) as page:
        await asked(page, "b10", "still here?")
    assert await words_left(store) == []
