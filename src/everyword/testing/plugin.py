"""The pytest plugin: an app per test, a manual clock, and `async def` tests without another plugin.

Pytest loads it wherever everyword is installed.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from . import LocalServer, ManualClock

__all__ = ["everyword_app", "manual_clock"]

MARKER = "everyword"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{MARKER}: runs an `async def` test in a loop of its own")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run marked `async def` tests; leave all others to other plugins."""
    if pyfuncitem.get_closest_marker(MARKER) is None or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**given))
    return True


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that the test advances by hand; pass it to `everyword_app` as `clock`."""
    from . import ManualClock

    return ManualClock()


@pytest.fixture
def everyword_app(tmp_path: Path) -> Callable[..., LocalServer]:
    """Return a function that makes a `LocalServer` from agent classes or an app, on a file of this test."""
    from . import LocalServer

    def made(*agents: Any, **options: Any) -> LocalServer:
        return LocalServer(*agents, **{"store": tmp_path / "everyword.db", **options})

    return made
