"""Faults at random in three nodes under load: nothing is lost, nothing is doubled, all clients see the same."""

from __future__ import annotations

import os
import random

import pytest

from tests.nodes.chaos import run_chaos
from tests.postgres.server import OwnPostgres

FAULTS = int(os.environ.get("CHAOS_FAULTS") or 12)


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("own_postgres", [{"fsync": "on"}], indirect=True)
async def test_faults_in_three_nodes_lose_and_double_nothing(own_postgres: OwnPostgres) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or (1 if os.environ.get("CI") else random.randrange(10**6)))
    chaos, violations = await run_chaos(FAULTS, seed, own_postgres)
    assert violations == [], f"seed {seed}, faults {dict(chaos.faults)}"
    assert sum(chaos.faults.values()) == FAULTS
    assert all(chaos.history.asked[chat] for chat in ("chat0", "chat1", "chat2", "chat3"))
    assert chaos.history.seen
