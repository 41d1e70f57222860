"""Files from the time when the package was called holdfast still open, and their open turns continue."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx

from everyword import AIChatAgent, Everyword, Turn
from everyword.agents.think.output import expected_type
from everyword.cli import main

FORMER = Path(__file__).parent / "former"


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> Any:
        yield "and the rest" if turn.continuation else "hello"


async def test_a_database_of_the_former_name_opens_and_its_open_turn_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    connection = sqlite3.connect(path)
    connection.executescript((FORMER / "written-as-holdfast.sql").read_text())
    connection.close()
    app = Everyword([Chat], store=str(path))
    async with app, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert await texts(client, "ann") == ["hello", "You said: hello"]
        await app.get(Chat, "bob").wait_until_stable()
        assert await texts(client, "bob") == ["please wait", "You said: and the rest"]


async def texts(client: httpx.AsyncClient, name: str) -> list[str]:
    found = (await client.get(f"/agents/chat/{name}/get-messages")).json()
    return ["".join(part.get("text", "") for part in message["parts"]) for message in found]


def test_an_export_of_the_former_name_is_imported(tmp_path: Path, capsys: Any) -> None:
    database = str(tmp_path / "everyword.db")
    assert main(["import", str(FORMER / "exported-as-holdfast.jsonl"), "--db", database]) == 0
    assert main(["show", "chat/ann", "--db", database]) == 0
    assert "You said: hello" in capsys.readouterr().out


def test_a_stored_turn_of_the_former_name_still_knows_its_output_type() -> None:
    call = SimpleNamespace(agent="chat/ann")
    turn = SimpleNamespace(id="r1", body={"holdfast:output": "dict"}, _call=call)
    assert expected_type(cast(Turn, turn), [int, dict]) is dict
