"""Fixtures: a real PostgreSQL, started when the first test asks for it.

- `postgres_url`: the URL of a schema that only this test uses. Most tests want this.
- `postgres_server`: the server of the test run, shared by all workers.
- `own_postgres`: a server of this test alone, which it may stop and crash. Settings are given by
  `@pytest.mark.parametrize("own_postgres", [{"fsync": "on"}], indirect=True)`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import asyncpg
import pytest

from tests.postgres.server import OwnPostgres, Postgres

LOCK_TIMEOUT = "10s"
"""How long dropping a schema waits for a transaction that a test left open."""


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Postgres]:
    folder = tmp_path_factory.getbasetemp()
    is_worker = hasattr(request.config, "workerinput")  # the folders of all workers of a run have one parent
    server = Postgres.shared(folder.parent if is_worker else folder)
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Iterator[str]:
    schema = f"t_{uuid4().hex[:12]}"
    yield f"{postgres_server.url}&schema={schema}"
    asyncio.run(drop_schema(postgres_server, schema))


@pytest.fixture
def own_postgres(request: pytest.FixtureRequest) -> Iterator[OwnPostgres]:
    server = OwnPostgres.started(getattr(request, "param", None))
    yield server
    server.close()


async def drop_schema(server: Postgres, schema: str) -> None:
    connection = await server.connect()
    try:
        await connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'")
        await connection.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {schema} CASCADE")
    except asyncpg.LockNotAvailableError as error:
        raise AssertionError(f"the test left a transaction open that uses its schema {schema}") from error
    finally:
        await connection.close()
