"""A client of a node that relays gets the frames that a client of the owner gets."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from everyword.log.memory import MemoryLog
from tests.agents.bases import BASES, answering
from tests.cluster.relayed import Edge
from tests.parity.kit import Client, clients, serving
from tests.parity.test_tools import Play
from tests.parity.tooling import GATES, SCENARIOS, Chat

RANDOM = re.compile(r'(?:assistant|approval)[_-][\w-]{12,}|(?<="id":")[\w-]{22}(?=")')
TIME = re.compile(r"(?<=:)\d{13}\b")


def told(client: Client) -> list[str]:
    """Return the frames that a client was sent, with numbers for random ids and no times: two may be equal.

    Replies to `settled` are left out: they are sent when they are ready, between two chunks.
    """
    known: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return known.setdefault(found[0], f"<{len(known)}>")

    frames = [frame for frame in client.frames if frame["type"] != "rpc"]
    texts = [TIME.sub("<time>", json.dumps(frame, separators=(",", ":"))) for frame in frames]
    return [RANDOM.sub(number, text) for text in texts]


async def frames_of(base: str, scenario: str) -> dict[str, list[str]]:
    """Play a scenario before three clients: one asks, one watches, one comes back in the middle."""
    GATES.clear()
    async with serving(MemoryLog(), answering(base, Chat)) as server:
        play = Play(server, "a", scenario)
        asker, tab, again = (play.client() for _ in range(3))
        async with clients(asker, tab, again):
            for client in (asker, tab, again):
                await client.settled()
            await asker.ask("r1", scenario, [])
            await play.gates.reached(1)
            await play.to(1, 100, asker)
            await again.drop()
            again.frames.clear()
            await again.connect()
            for client in (tab, again):
                await client.settled()
                await client.settled()
            await play.finish(asker)
            for client in (asker, tab, again):
                await client.settled()
            return {"asker": told(asker), "tab": told(tab), "again": told(again)}


@pytest.mark.parametrize("scenario", ["everything", "data", "server tool", "approved", "client tool"])
@pytest.mark.parametrize("base", BASES)
async def test_frames_are_the_same_with_and_without_a_link(
    base: str, scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = []
    for is_relayed in ("", "1"):
        monkeypatch.setenv("EVERYWORD_RELAYED", is_relayed)
        before = Edge.relayed
        found.append(await frames_of(base, scenario))
        assert (Edge.relayed > before) == bool(is_relayed)
    for who, frames in found[0].items():
        assert found[1][who] == frames, who
    assert len(found[0]["asker"]) > len(SCENARIOS[scenario].first)
