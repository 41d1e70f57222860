"""Tells each test of a seeded bug which one comes next, so that it can begin beside it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mutants.bug import Bug
from tests.mutants.trials import Trials

_NEXT = pytest.StashKey[Bug | None]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    item.stash[_NEXT] = _bug_of(nextitem) if nextitem is not None else None


@pytest.fixture
def next_bug(request: pytest.FixtureRequest) -> Bug | None:
    """The bug whose test this process runs next."""
    return request.node.stash[_NEXT]  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    made = Trials(tmp_path_factory.mktemp("mutants"))
    yield made
    made.close()


def _bug_of(item: pytest.Item) -> Bug | None:
    callspec = getattr(item, "callspec", None)
    bug = callspec.params.get("bug") if callspec is not None else None
    return bug if isinstance(bug, Bug) else None
