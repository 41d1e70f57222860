"""The stores of a test that is parametrised with `kind`."""

from __future__ import annotations

import pytest

from tests.log.stores import Stores, stores_of


@pytest.fixture
def stores(kind: str, request: pytest.FixtureRequest) -> Stores:
    return stores_of(kind, request)
