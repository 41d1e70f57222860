"""The simulated PostgreSQL: the store over it keeps the contract."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.testing.simulated_postgres.connections import node_store
from everyword.testing.simulated_postgres.server import SimulatedPostgres
from tests.log.building import Store
from tests.log.contract import LogContract
from tests.log.stores import Stores


class _SimulatedStores(Stores):
    """Each store is a new node of the same database."""

    def __init__(self, folder: Any) -> None:
        super().__init__("simulated", folder)
        self._database = SimulatedPostgres()

    def make(self, **options: Any) -> Store:
        return node_store(self._database, **options)


class TestSimulatedPostgres(LogContract):
    @pytest.fixture(autouse=True)
    def _stores(self, request: pytest.FixtureRequest) -> None:
        self.stores = _SimulatedStores(request.getfixturevalue("tmp_path"))
