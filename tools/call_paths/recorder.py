"""Record which functions of one package are called between two points, with `sys.setprofile`."""

from __future__ import annotations

import dis
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

__all__ = ["Function", "Recorder", "Step", "Trace"]

_INLINE: Final = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Comprehensions have a frame of their own in Python 3.11 and none in 3.12; they count as a part of their function."""


@dataclass(frozen=True, order=True)
class Function:
    """A function of the package: the module without the package's name, and the qualified name."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}: {self.name}"


@dataclass(frozen=True)
class Step:
    """One function that began to run, or a coroutine that went on after it had waited."""

    stack: tuple[tuple[int, Function], ...]
    """The functions of the package that were running in this thread, outermost first, each with its frame's id."""
    is_call: bool
    """False for a coroutine or generator that goes on."""
    thread: str

    @property
    def function(self) -> Function:
        return self.stack[-1][1]


@dataclass(frozen=True)
class Trace:
    """What happened between begin and end."""

    begin: str
    end: str
    steps: tuple[Step, ...]

    @cached_property
    def called(self) -> list[Function]:
        """The functions in the order in which they were called."""
        return [step.function for step in self.steps if step.is_call]

    @property
    def calls(self) -> int:
        return len(self.called)

    @property
    def functions(self) -> int:
        return len(set(self.called))

    @property
    def modules(self) -> int:
        return len({function.module for function in self.called})

    @property
    def module_changes(self) -> int:
        """How often the next call is in another module than the call before it."""
        modules = [function.module for function in self.called]
        return sum(one != other for one, other in pairwise(modules))

    def tree(self) -> Iterator[str]:
        """Return the calls as indented lines.

        A line with `…` is a function that was already running: it waited, or the function before it returned to it.
        """
        yield f"begin: {self.begin}"
        shown: tuple[tuple[int, Function], ...] = ()
        thread = self.steps[0].thread if self.steps else ""
        for step in self._without_waiting_callers():
            if step.thread != thread:
                thread, shown = step.thread, ()
                yield f"-- thread {thread}"
            known = _common(shown, step.stack if not step.is_call else step.stack[:-1])
            for depth, (_, function) in enumerate(step.stack[known:], known):
                is_new = step.is_call and depth == len(step.stack) - 1
                yield f"{'  ' * (depth + 1)}{function}{'' if is_new else ' …'}"
            shown = step.stack
        yield f"end: {self.end}"

    def _without_waiting_callers(self) -> Iterable[Step]:
        """Leave out the coroutines that go on only to let an inner one go on; the inner one's stack names them."""
        for step, after in zip(self.steps, (*self.steps[1:], None), strict=True):
            is_passing = after is not None and not after.is_call and after.stack[:-1] == step.stack
            if step.is_call or not is_passing:
                yield step


def _common(one: tuple[object, ...], other: tuple[object, ...]) -> int:
    """Return how many items the two have in common at their beginning."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


class Recorder:
    """Notes the calls of one package. Armed with a walk's name, it records from `begin` to `end` of that walk."""

    def __init__(self, package: Path) -> None:
        self._root = f"{package}/"
        self._is_on = False
        self._armed: str | None = None
        self._begin = ""
        self._steps: list[Step] = []
        self._functions: dict[CodeType, Function | None] = {}
        self._traces: list[Trace] = []
        self._has_ended = threading.Event()

    def install(self) -> None:
        """Watch the threads that are started from now on, and not the present one."""
        threading.setprofile(self._profile)

    def uninstall(self) -> None:
        threading.setprofile(None)

    def arm(self, walk: str) -> None:
        """Record this walk the next time that it begins."""
        self._has_ended.clear()
        self._armed = walk

    def wait(self, seconds: float) -> Trace:
        """Return what was recorded, when the walk has ended.

        Raises:
            TimeoutError: It did not begin, or did not end.
        """
        if not self._has_ended.wait(seconds):
            raise TimeoutError(f"the walk {self._armed!r} has not {'ended' if self._is_on else 'begun'}")
        return self._traces[-1]

    def begin(self, walk: str, place: str) -> None:
        """Start recording, if this walk is the one that is waited for."""
        if walk == self._armed and not self._is_on:
            self._begin, self._steps = place, []
            self._is_on = True

    def end(self, walk: str, place: str) -> None:
        """Stop recording, if this walk is being recorded."""
        if walk == self._armed and self._is_on:
            self._is_on, self._armed = False, None
            self._traces.append(Trace(self._begin, place, tuple(self._steps)))
            self._has_ended.set()

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if not self._is_on or event != "call" or self._function(frame) is None:
            return
        is_call = frame.f_lasti <= _first_instruction(frame.f_code)
        self._steps.append(Step(tuple(self._stack(frame)), is_call, threading.current_thread().name))

    def _stack(self, innermost: FrameType) -> list[tuple[int, Function]]:
        stack: list[tuple[int, Function]] = []
        frame: FrameType | None = innermost
        while frame is not None:
            if (function := self._function(frame)) is not None:
                stack.append((id(frame), function))
            frame = frame.f_back
        stack.reverse()
        return stack

    def _function(self, frame: FrameType) -> Function | None:
        """Return the function that a frame runs; None if it is not the package's own."""
        code = frame.f_code
        if code not in self._functions:
            is_ours = code.co_filename.startswith(self._root) and code.co_name not in _INLINE
            self._functions[code] = self._named(code) if is_ours else None
        return self._functions[code]

    def _named(self, code: CodeType) -> Function:
        module = code.co_filename.removeprefix(self._root).removesuffix(".py").removesuffix("/__init__")
        return Function(module.replace("/", "."), code.co_qualname.replace(".<locals>", ""))


@cache
def _first_instruction(code: CodeType) -> int:
    """Return where a call of this code begins: a coroutine or generator that goes on is further than that."""
    return next(each.offset for each in dis.get_instructions(code) if each.opname == "RESUME")
