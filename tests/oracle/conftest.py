from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.oracle.client import Oracle, start_oracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    with start_oracle() as running:
        yield running
