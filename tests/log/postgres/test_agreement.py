"""The store on PostgreSQL agrees with the reference store, after any history of appends, reopenings and takeovers."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from everyword.errors import Fenced
from everyword.ids import AgentId
from everyword.log.base import Activation
from everyword.log.postgres.store import PostgresLog
from tests.log.agreement import Agreement
from tests.log.building import FOREVER, Store, fact
from tests.log.postgres.takeover import declare_gone
from tests.postgres.fixtures import drop_schema
from tests.postgres.server import Postgres

LEASE = 600.0
"""Seconds. The event loop stands still between two steps, so no heartbeat may be missed."""


class PostgresAgreement(Agreement):
    """Instead of a crash, another node takes everything from one that was declared gone and does not know it."""

    server: Postgres

    def __init__(self) -> None:
        super().__init__()
        self.schema = f"t_{uuid4().hex[:12]}"
        self.zombies: list[PostgresLog] = []
        self.owned: set[AgentId] = set()

    def make(self) -> PostgresLog:
        return PostgresLog(f"{self.server.url}&schema={self.schema}", lease=LEASE)

    def open(self) -> None:
        """A store that is opened is a new node: it has none of the leases of the one before."""
        super().open()
        self.owned.clear()
        for agent, (_, old) in list(self.owners.items()):
            old.store = self.store
            assert self.runner.run(self.appended(old, (fact("late"),), {})) is Fenced
            self.activate(agent)

    async def activated(self, store: Store, agent: AgentId) -> Activation:
        if store is not self.store:
            return await super().activated(store, agent)
        loaded = await store.activate(agent, recent=3)
        due = [] if agent in self.owned else [each for each in await self.memory.due(FOREVER) if each[0] == agent]
        assert list(loaded.wakes) == due, "a node that becomes the owner gets the wake times, and only then"
        self.owned.add(agent)
        return msgspec.structs.replace(loaded, wakes=())

    def teardown(self) -> None:
        for zombie in self.zombies:
            self.runner.run(zombie.aclose())
        self.close()
        self.runner.run(drop_schema(self.server, self.schema))
        self.runner.close()

    @rule()
    def take_over(self) -> None:
        if len(self.zombies) < 2:
            assert isinstance(self.store, PostgresLog)
            self.zombies.append(self.store)
            self.runner.run(declare_gone(self.server, self.schema, self.store))
            self.open()


TestAgreement = PostgresAgreement.TestCase
TestAgreement.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)


@pytest.fixture(autouse=True)
def _server(postgres_server: Postgres) -> None:
    PostgresAgreement.server = postgres_server
