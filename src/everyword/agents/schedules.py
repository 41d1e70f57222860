"""`@scheduled`: schedules that a class declares; and a warning about schedules without a key in `on_start`."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from ..cron import check_cron
from ..errors import BadInput, UsageError
from ..messages.json_values import encode_json
from ..runtime.api import DeclaredJob

__all__ = ["Every", "declared_jobs", "run_on_start", "scheduled", "takes_payload", "warn_if_starting"]

log = logging.getLogger("everyword.agents")
F = TypeVar("F", bound=Callable[..., Any])

_MARK: Final = "__everyword_schedules__"
GIVEN: Final = ("missed", "queue_item")
"""Parameters of a job's method that are not its payload."""


@dataclass(frozen=True, slots=True)
class Every:
    """An interval of a repeated schedule: `Every(hours=1)`."""

    seconds: float = 0
    minutes: float = 0
    hours: float = 0

    @property
    def milliseconds(self) -> int:
        return round((self.seconds + self.minutes * 60 + self.hours * 3600) * 1000)

    @property
    def rule(self) -> str:
        """The interval as it is stored.

        Raises:
            UsageError: it is none.
        """
        if self.milliseconds < 1:
            raise UsageError("unable to schedule every 0 seconds; give Every a time, such as Every(minutes=5)")
        return str(self.milliseconds)


# -- declaring ---------------------------------------------------------------------------------------------------------


def scheduled(when: str | Every, payload: Any = None, *, zone: str = "UTC", max_attempts: int = 5) -> Callable[[F], F]:
    """Run this method repeatedly: by a cron line (in a time zone), or `Every(...)`.

    Every agent of the class has the schedule from its first start on. When an agent starts, new schedules are added,
    those that are no longer declared are cancelled, and unchanged ones keep their time. May be used more than once.

    Args:
        when: A cron line of five fields, or `Every(hours=1)`.
        payload: What the method is given, as JSON; a method without parameters is given nothing.
        zone: The time zone of a cron line.
        max_attempts: How often a run that fails is tried.

    Raises:
        UsageError: the schedule or the method cannot be used.
    """
    kind, rule = _repeating(when, zone)
    if max_attempts < 1:
        raise UsageError(f"unable to schedule; max_attempts is {max_attempts}; give 1 or more")
    try:
        encode_json(payload)
    except BadInput as exc:
        raise UsageError(f"unable to schedule; its payload has no JSON form ({exc})") from exc

    def mark(method: F) -> F:
        if not inspect.isfunction(method):
            raise UsageError("unable to schedule this; put @scheduled directly on a method, below other decorators")
        name = method.__name__
        if name.startswith("_"):
            raise UsageError(f"unable to schedule {name!r}; its name begins with an underscore: make it public")
        if payload is not None and not takes_payload(method, is_bound=False):
            raise UsageError(f"unable to schedule {name!r}; {name} does not take its payload: add a parameter")
        job = DeclaredJob(kind, name, rule, zone if kind == "cron" else None, payload, max_attempts)
        before: list[DeclaredJob] = getattr(method, _MARK, [])
        if any(_said(each) == _said(job) for each in before):
            raise UsageError(f"unable to schedule; {name} has the same schedule twice")
        setattr(method, _MARK, [*before, job])
        return method

    return mark


def _repeating(when: object, zone: str) -> tuple[Literal["cron", "every"], str]:
    if isinstance(when, Every):
        return "every", when.rule
    if isinstance(when, str):
        check_cron(when, zone)
        return "cron", when
    if inspect.isfunction(when):
        raise UsageError('unable to schedule; write @scheduled("0 9 * * *") or @scheduled(Every(hours=1))')
    raise UsageError(f"unable to schedule by {when!r}; {when!r} does not repeat. Give a cron line or Every(...)")


def _said(job: DeclaredJob) -> tuple[str, str | None, bytes]:
    return job.rule, job.zone, encode_json(job.payload)


@functools.cache
def declared_jobs(cls: type[Any]) -> Sequence[DeclaredJob]:
    """Return what a class declares. A method that a subclass replaces has the schedules of the new one, or none."""
    found: list[DeclaredJob] = []
    for name in dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base)):
        found += getattr(inspect.getattr_static(cls, name), _MARK, ())
    return found


def takes_payload(method: Callable[..., Any], *, is_bound: bool = True) -> bool:
    """Tell whether a job's method has a parameter for the payload."""
    parameters = list(inspect.signature(method).parameters.values())[0 if is_bound else 1 :]
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(
        each.kind is each.VAR_POSITIONAL or (each.kind in by_position and each.name not in GIVEN) for each in parameters
    )


# -- while an agent starts ---------------------------------------------------------------------------------------------


class _Start:
    is_over = False


_starting: ContextVar[_Start | None] = ContextVar("everyword_starting", default=None)
_warned: set[tuple[type[Any], str]] = set()


async def run_on_start(on_start: Callable[[], Awaitable[None]]) -> None:
    """Run an agent's `on_start`; `warn_if_starting` knows that code in it is part of the start."""
    start = _Start()
    _starting.set(start)
    try:
        await on_start()
    finally:
        start.is_over = True  # tasks that it leaves behind have the same context, and are no part of it


def warn_if_starting(cls: type[Any], callback: str) -> None:
    """Warn once of a schedule that comes once, is asked for in `on_start`, and has no key."""
    start = _starting.get()
    if start is None or start.is_over or (cls, callback) in _warned:
        return
    _warned.add((cls, callback))
    log.warning(
        "%s.on_start schedules %r without a key: it is added every time that the agent is loaded, beside those that "
        "wait already. Give it key=..., and it is there once",
        cls.__name__,
        callback,
    )
