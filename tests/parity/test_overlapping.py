"""Questions that are asked while an answer is being written: every client shows the same messages in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everyword.log.memory import MemoryLog
from tests.agents.bases import BASES, answering
from tests.parity.kit import Chat, Client, Server, clients, serving

FIRST, SECOND, THIRD = ["one ", "two ", "three"], ["four ", "five"], ["six"]


def texts(messages: list[dict[str, Any]]) -> list[str]:
    """Return what is on the page, from top to bottom."""
    return ["".join(part.get("text", "") for part in message["parts"]) for message in messages]


async def shows(client: Client, *expected: str) -> None:
    await client.until(lambda me: texts(me.shown) == list(expected))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("base", BASES)
async def test_a_waiting_question_stands_behind_the_answer_that_is_being_written(
    base: str, kind: str, tmp_path: Path
) -> None:
    """P-44."""
    store: Any = MemoryLog() if kind == "memory" else str(tmp_path / "log.db")
    async with serving(store, answering(base, Chat)) as server:
        agree = [await overlap(server, f"cut-{cut}", cut) for cut in range(len(FIRST) + 1)]
    assert agree == [8] * (len(FIRST) + 1)


async def overlap(server: Server, name: str, cut: int) -> int:
    """Ask three questions, two of them after so many words of the first answer; look at eight clients all the way.

    Returns how many of them show what is stored in the end.
    """
    steps = server.steps(name)
    asker, tab, other, away = (Client(server, name) for _ in range(4))
    late, deaf, silent, last = (
        Client(server, name),
        Client(server, name, acknowledges=False),
        Client(server, name, probes=False),
        Client(server, name),
    )
    async with clients(asker, tab, other, away):
        await asker.ask("r1", "Q1", FIRST)
        steps.allow(cut)
        said = "".join(FIRST[:cut])
        begun = [said] if said else []
        for client in (asker, tab, other, away):
            await shows(client, "Q1", *begun)
        await away.drop()
        await other.ask("r2", "Q2", SECOND)
        for client in (asker, tab, other):
            await shows(client, "Q1", *begun, "Q2")
        await asker.ask("r3", "Q3", THIRD)
        for client in (tab, other):
            await shows(client, "Q1", *begun, "Q2", "Q3")
        assert texts(await server.stored(name)) == ["Q1", *begun, "Q2", "Q3"]

        await late.connect()
        await deaf.connect()
        await silent.connect()
        await away.connect()
        for client in (late, silent, away):
            await shows(client, "Q1", *begun, "Q2", "Q3")

        for word in FIRST[cut:]:
            steps.allow()
            said += word
            for client in (tab, other, late, silent, away):
                await shows(client, "Q1", said, "Q2", "Q3")
            assert texts(await server.stored(name)) == ["Q1", said, "Q2", "Q3"]
        steps.allow()  # over
        for client in (asker, tab, other, late, silent, deaf, away):
            await client.ended("r1")
            await shows(client, "Q1", said, "Q2", "Q3")

        steps.allow()
        for client in (asker, tab, other, late, silent, deaf, away):
            await shows(client, "Q1", said, "Q2", "four ", "Q3")
        assert texts(await server.stored(name)) == ["Q1", said, "Q2", "four ", "Q3"]
        await last.connect()
        await shows(last, "Q1", said, "Q2", "four ", "Q3")
        steps.free.set()
        steps.allow(50)
        everybody = (asker, tab, other, late, silent, deaf, away, last)
        for client in everybody:
            await client.ended("r3")
            await client.settled()
        stored = await server.stored(name)
        assert texts(stored) == ["Q1", said, "Q2", "four five", "Q3", "six"]
        for client in (late, silent, deaf, last):
            await client.drop()
    return sum(client.shown == stored for client in everybody)
