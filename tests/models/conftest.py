from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.models.provider import FakeProvider, serving


@pytest.fixture(scope="package")
def running_provider() -> Iterator[FakeProvider]:
    with serving() as provider:
        yield provider


@pytest.fixture
def provider(running_provider: FakeProvider) -> FakeProvider:
    running_provider.clear()
    return running_provider
