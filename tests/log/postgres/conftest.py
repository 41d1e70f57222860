"""For all tests of the PostgreSQL store."""

from __future__ import annotations

import pytest

from everyword.log.postgres import node_lease


@pytest.fixture(autouse=True)
def _rare_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let heartbeats come every quarter of a lease: tests that end a lease by hand have one of minutes."""
    monkeypatch.setattr(node_lease, "LONGEST_INTERVAL", float("inf"))
