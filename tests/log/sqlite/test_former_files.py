"""Files of earlier versions open, also for a class that was renamed and whose state has another shape."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from everyword import Agent, AIChatAgent, Everyword, Turn
from everyword.cli import main
from everyword.client import AgentClient
from everyword.ids import AgentId
from everyword.log.sqlite.agent_databases import FileBackend
from tests.loaded_agents import loaded_agent
from tests.server.kit import connect, serving
from tests.timeouts import PATIENCE

FORMER = Path(__file__).parent / "former"
SHOP = AgentId("shop/ann")


class Order(BaseModel):
    item: str
    count: int


class Clerk(Agent):
    aliases = ("helper",)
    initial_state: ClassVar[Any] = {"n": 0}


class Store(Agent):
    aliases = ("shop",)
    sub_agent_classes = (Clerk,)
    state_model = Order

    def upgrade_state(self, old: Any) -> Any:
        return {"item": old["item"], "count": old["amount"]}


class Support(AIChatAgent):
    kind = "help-desk"
    aliases = ("chat",)

    async def on_chat_message(self, turn: Turn) -> Any:
        yield "and the rest"


def restored(script: str, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript((FORMER / script).read_text(encoding="utf-8"))
    connection.close()
    return path


@pytest.mark.parametrize("version", [2, 5])
async def test_agents_of_an_earlier_version_are_reached_by_old_and_new_addresses(version: int, tmp_path: Path) -> None:
    path = restored(f"version-{version}.sql", tmp_path / "log.db")
    async with (
        asyncio.timeout(PATIENCE),
        serving(Everyword([Store, Support], store=str(path))) as url,
        AgentClient(url, agent="store", name="ann") as new,
        AgentClient(url, agent="shop", name="ann") as old,
        connect(url) as http,
    ):
        for client in (new, old):
            await client.connection.until(lambda client=client: client.state is not None)
            assert client.state == {"item": "tea", "count": 3}
        await new.set_state({"item": "tea", "count": 4})
        await old.connection.until(lambda: old.state == {"item": "tea", "count": 4})
        for kind in ("chat", "help-desk"):
            assert texts(await http.get(f"/agents/{kind}/ann/get-messages")) == ["hello", "You said: hello"]
        stream = await http.get("/agents/help-desk/bob/chat/stream")
        assert stream.status_code in (200, 204), "its open turn has gone on, or ended"
        assert texts(await http.get("/agents/chat/bob/get-messages")) == ["please wait", "You said: and the rest"]
    assert await asyncio.to_thread(main, ["doctor", "--db", str(path)]) == 0


def texts(response: Any) -> list[str]:
    assert response.status_code == 200
    return ["".join(part.get("text", "") for part in message["parts"]) for message in response.json()]


async def test_the_database_and_the_sub_agents_of_an_agent_stay_with_it(tmp_path: Path) -> None:
    path = restored("version-5.sql", tmp_path / "log.db")
    restored("version-5-shop-ann.sql", FileBackend(str(path), "NORMAL").path(SHOP))
    async with asyncio.timeout(PATIENCE), Everyword([Store, Support], store=str(path)) as app:
        store = await loaded_agent(app.get(Store, "ann"))
        clerk = await store.sub_agent(Clerk, "h")
        assert (store.state, await clerk.get_state()) == (Order(item="tea", count=3), {"n": 7})
        assert await store.sql("select text from note") == [{"text": "milk"}]
        assert sorted(await (await app.service()).directory.store.agents()) == [  # type: ignore[attr-defined]
            *("chat/ann", "chat/bob", "shop/ann", "shop/ann/sub/helper/h"),
        ]
