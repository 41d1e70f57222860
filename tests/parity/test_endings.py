"""Every ending is identical for every observer: outcome by observer by cut point, over real sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from everyword.log.memory import MemoryLog
from tests.agents.bases import BASES, answering
from tests.parity.kit import Chat, Client, Server, clients, serving

WORDS = ["Hel", "lo ", "wor", "ld"]
SAFE = "Something went wrong while answering. Please try again."
ENDINGS: dict[str, tuple[list[Any], str, str | None, str | None]] = {
    # script, outcome, error text, stored answer
    "completed": (WORDS, "completed", None, "Hello world"),
    "in-band error": (
        [*WORDS[:3], {"type": "error", "errorText": "rate limited"}],
        "error",
        "rate limited",
        "Hello wor",
    ),
    "thrown error": ([*WORDS[:3], "!throw"], "error", SAFE, "Hello wor"),
    "error with public text": ([*WORDS[:3], "!say"], "error", "shown on purpose", "Hello wor"),
    "error before the first word": (["!throw"], "error", SAFE, None),
    "aborted": ([*WORDS[:3], "!hang"], "aborted", None, "Hello wor"),
    "nothing": ([], "completed", None, None),
    "not sanitised": (["unspeak", "able"], "error", "The answer could not be prepared for storage.", "unspeakable"),
}


def answer_of(messages: list[dict[str, Any]]) -> str | None:
    said = [m for m in messages if m["role"] == "assistant"]
    assert len(said) <= 1, said
    return "".join(p.get("text", "") for p in said[0]["parts"]) if said else None


async def finish(server: Server, name: str, asker: Client, outcome: str) -> None:
    server.steps(name).free.set()
    server.steps(name).allow(50)
    if outcome == "aborted":
        await asker.until(lambda me: answer_of(me.shown) == "Hello wor")
        await asker.send(type="cf_agent_chat_request_cancel", id="r1")


async def check(server: Server, name: str, client: Client, ending: str, *, must_know: bool) -> None:
    script, outcome, error, text = ENDINGS[ending]
    await client.settled()
    stored = await server.stored(name)
    assert answer_of(stored) == text
    assert client.shown == stored
    told = client.protocol.endings.get("r1")
    if told is not None or must_know:
        assert told is not None
        assert (told.outcome, told.error) == (outcome, error)
        terminals = [f for f in client.frames if f.get("id") == "r1" and (f.get("done") or f.get("error"))]
        assert all(f["done"] for f in terminals), "an error is one frame, and it is the last"


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.obligation("001-Q4", "000-9.1", "000-9.3", "000-4.a", "000-4.b", "000-4.c", "000-6.1", "000-6.2", "000-Q1")
async def test_every_observer_ends_with_the_same_parts_status_and_error_text(
    base: str, kind: str, ending: str, tmp_path: Path
) -> None:
    """P-14."""
    store: Any = MemoryLog() if kind == "memory" else str(tmp_path / "log.db")
    words = sum(isinstance(word, str) and word[0] != "!" for word in ENDINGS[ending][0])
    async with serving(store, answering(base, Chat)) as server:
        observers = [await observe(server, f"{ending}-{cut}", ending, cut) for cut in range(words + 1)]
    assert observers == [8] * (words + 1)


async def observe(server: Server, name: str, ending: str, cut: int) -> int:
    """Let eight observers see a turn, some of them cut off after so many words; return how many agree in the end."""
    script, outcome, error, _ = ENDINGS[ending]
    asker, tab = Client(server, name), Client(server, name)
    during, after = Client(server, name), Client(server, name)
    deaf, late, away = (
        Client(server, name, acknowledges=False),
        Client(server, name, acknowledges=False),
        Client(server, name),
    )
    async with clients(asker, tab, during, after, away):
        await away.drop()
        await asker.ask("r1", "hi", script)
        await tab.until(lambda me: len(me.shown) > 0)
        server.steps(name).allow(cut)
        spoken = "".join(word for word in script[:cut] if isinstance(word, str) and not word.startswith("!"))
        if spoken:
            for client in (asker, tab, during, after):
                await client.until(lambda me: answer_of(me.shown) == spoken)
        await during.drop()
        await after.drop()
        await during.connect()
        await deaf.connect()
        await late.connect()
        await during.settled()
        await finish(server, name, asker, outcome)
        for client in (asker, tab, during, deaf, late):
            await client.ended("r1")
        await after.connect()
        await away.connect()
        for client in (asker, tab, during):
            await check(server, name, client, ending, must_know=True)
        for client in (after, away):
            if error is not None:
                await client.ended("r1")
            await check(server, name, client, ending, must_know=error is not None)
        await check(server, name, deaf, ending, must_know=True)
        await late.acknowledge_late()
        await check(server, name, late, ending, must_know=True)
        first = Client(server, name)
        async with clients(first):
            if error is not None:
                await first.ended("r1")
            await check(server, name, first, ending, must_know=error is not None)
        await deaf.drop()
        await late.drop()
    return sum(client.shown == first.shown for client in (asker, tab, during, deaf, late, after, away, first))
