"""`everyword nodes`: the nodes of a database, as a table and as JSON."""

from __future__ import annotations

import asyncio
import json

import asyncpg
import pytest

from everyword.cli import main
from everyword.ids import AgentId, Millis, Seq
from everyword.log.base import Batch
from everyword.log.postgres.store import PostgresLog
from everyword.testing import Gate
from tests.cli.kit import speaker
from tests.log.building import state
from tests.server.kit import chat

Captured = pytest.CaptureFixture[str]


async def nodes(capsys: Captured, url: str, *arguments: str) -> tuple[str, str]:
    assert await asyncio.to_thread(main, ["nodes", url, *arguments]) == 0
    said = capsys.readouterr()
    return said.out, said.err


async def test_each_node_is_listed_with_what_it_owns(postgres_url: str, capsys: Captured) -> None:
    one, two = (PostgresLog(postgres_url, name=name, link_url=f"10.0.0.1:{name}") for name in ("1", "2"))
    await one.open()
    await two.open()
    try:
        for agent in ("chat/ann", "chat/bob"):
            activation = await one.activate(AgentId(agent))
            await one.append([Batch(AgentId(agent), activation.epoch, Seq(1), Millis(1), [state(1)])])[0]
        await one.activate(AgentId("chat/empty"))
        assert two.nodes is not None
        await two.nodes.begin_drain()
        listed = json.loads((await nodes(capsys, postgres_url, "--json"))[0])
        assert [(each["name"], each["state"], each["address"]) for each in listed] == [
            ("1", "up", "10.0.0.1:1"),
            ("2", "draining", "10.0.0.1:2"),
        ]
        assert [(each["agents"], each["openTurns"]) for each in listed] == [(2, 0), (0, 0)]
        assert listed[0]["incarnation"] < listed[1]["incarnation"]
        assert all(0 < each["leaseLeft"] <= 6000 for each in listed)
        out, err = await nodes(capsys, postgres_url)
        assert [line.split()[:4] for line in out.splitlines()] == [
            ["NODE", "INCARNATION", "STATE", "ADDRESS"],
            ["1", str(listed[0]["incarnation"]), "up", "10.0.0.1:1"],
            ["2", str(listed[1]["incarnation"]), "draining", "10.0.0.1:2"],
        ]
        assert "2 nodes in postgresql://" in err
        assert "2 agents and 0 open turns loaded" in err
    finally:
        await one.aclose()
        await two.aclose()


async def test_a_server_is_a_node_with_its_open_turns(postgres_url: str, capsys: Captured) -> None:
    gate = Gate()
    async with chat(speaker(gate), store=postgres_url) as app:
        ann = app.get(next(iter(app.classes.values())), "ann")
        asking = asyncio.create_task(ann.save_messages("stay", request_id="stay"))
        await gate.reached.wait()
        (node,) = json.loads((await nodes(capsys, postgres_url, "--json"))[0])
        assert (node["agents"], node["openTurns"], node["state"]) == (1, 1, "up")
        assert app.node is not None
        assert (node["name"], node["address"]) == (app.node.name, app.node.url)
        gate.open()
        await asking


async def test_a_node_whose_lease_is_over_is_late(postgres_url: str, capsys: Captured) -> None:
    store = PostgresLog(postgres_url, name="gone")
    await store.open()
    await store.aclose()
    server, _, schema = postgres_url.rpartition("&schema=")
    connection = await asyncpg.connect(server)
    await connection.execute(f"update {schema}.node set state = 'up', until = clock_timestamp() - interval '1 second'")
    await connection.close()
    (node,) = json.loads((await nodes(capsys, postgres_url, "--json"))[0])
    assert node["state"] == "late"
    assert node["leaseLeft"] < 0


async def test_an_empty_list_is_a_sentence(postgres_url: str, capsys: Captured) -> None:
    store = PostgresLog(postgres_url)
    await store.open()
    await store.aclose()
    assert (await nodes(capsys, postgres_url))[0].startswith("no node uses postgresql://")
    assert (await nodes(capsys, postgres_url, "--json"))[0] == "[]\n"


def test_a_file_has_no_nodes(capsys: Captured) -> None:
    assert main(["nodes", "everyword.db"]) == 2
    assert "only a PostgreSQL database has some" in capsys.readouterr().err
