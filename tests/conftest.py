"""Hooks of every test run: count obligations, configure Hypothesis, run `async def` tests."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import signal
import ssl
from collections.abc import Iterator

import hypothesis
import pytest

from tests.leaked_tasks import fail_on_leaked_tasks
from tools.obligations import Tally, read_page

pytest_plugins = ("tests.postgres.fixtures",)

_TALLY = pytest.StashKey[Tally]()
_PROPERTY = "obligation"

# A slow machine must not fail a property; CI draws the same examples every time.
hypothesis.settings.register_profile("everyword", deadline=None, print_blob=True)
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
hypothesis.settings.register_profile("long", deadline=None, print_blob=True, max_examples=2000)
hypothesis.settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "everyword")
)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TALLY] = Tally()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts background jobs with SIGINT ignored, and the processes that tests start would inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_handler_stays() -> Iterator[None]:
    """Take away what commands that run in this process log to: a stream that is closed when their test is over."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    root.setLevel(level)
    for handler in [each for each in root.handlers if type(each) is logging.StreamHandler and each not in before]:
        root.removeHandler(handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # User properties travel with the report, so that the count is right with workers too.
    for item in items:
        for marker in item.iter_markers("obligation"):
            item.user_properties.extend((_PROPERTY, each) for each in marker.args)
    # The tests of minutes, which have a timeout of their own, come first: one that begins last leaves a core idle.
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


def pytest_collection_finish(session: pytest.Session) -> None:
    # Imported modules stay; the garbage collector need not look at them again.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _one_set_of_certificates() -> Iterator[None]:
    """Read the certificates once: every HTTP client reads them again, and no test connects to another machine."""
    context = ssl.create_default_context()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", lambda *args, **kwargs: context)
        yield


class _Recorder:
    """Receives every report in the controlling process, from all workers."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ids = [str(value) for name, value in report.user_properties if name == _PROPERTY]
        if ids and (report.failed or (report.when == "call" and report.passed)):
            self._tally.record(report.nodeid, ids, passed=report.passed)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_Recorder(session.config.stash[_TALLY]), "obligations")


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    if not hasattr(session.config, "workerinput") and not session.config.option.collectonly:
        session.config.stash[_TALLY].save()
    yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    proven, listed = config.stash[_TALLY].proven, read_page()
    terminalreporter.write_line(f"obligations: {len(proven & set(listed))} of {len(listed)} proven in this run")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run each `async def` test in its own loop, and fail it if it leaves a task running."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(fail_on_leaked_tasks(test(**{name: pyfuncitem.funcargs[name] for name in names})))
    return True
