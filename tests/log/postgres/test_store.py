"""The store on PostgreSQL passes the contract tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from everyword.log.postgres.store import PostgresLog
from tests.log.contract import LogContract


class TestPostgresLog(LogContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_url: str) -> None:
        self.url = postgres_url

    def make(self, folder: Path) -> PostgresLog:
        return PostgresLog(self.url)
