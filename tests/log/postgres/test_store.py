"""The store on PostgreSQL passes the contract tests, with both durabilities."""

from __future__ import annotations

from types import MappingProxyType

from tests.log.contract import LogContract


class TestPostgresLog(LogContract):
    kind = "postgres"


class TestPostgresLogWithoutFlushes(LogContract):
    kind = "postgres"
    options = MappingProxyType({"durability": "process"})
