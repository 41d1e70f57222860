"""What a person does in a conversation, for `assert_parity`: asks, approves, answers calls, stops, asks again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import UsageError

__all__ = ["Act", "Approve", "Ask", "AskAndStop", "Deny", "Edit", "Give", "InAnotherTab", "Meanwhile", "Regenerate"]
__all__ += ["StopAnswer", "as_act"]


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a person does; the next thing is done when it has had its effect."""


@dataclass(frozen=True, slots=True)
class Ask(Act):
    """Ask something; a plain string in a script is the same."""

    text: str
    body: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AskAndStop(Act):
    """Ask something, and stop the answer once so many of its items are there."""

    text: str
    after: int = 1


@dataclass(frozen=True, slots=True)
class Approve(Act):
    """Allow the call of this tool that waits for somebody's word."""

    tool: str


@dataclass(frozen=True, slots=True)
class Deny(Act):
    """Refuse the call of this tool that waits for somebody's word."""

    tool: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Give(Act):
    """Give the result of the page's own tool that was called; with `error`, the text of its failure."""

    tool: str
    output: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Regenerate(Act):
    """Have the last answer given again."""


@dataclass(frozen=True, slots=True)
class Edit(Act):
    """Ask something else instead of an earlier question; what followed it is left.

    `question` is the place of that question among those on the page: 0 for the first, -1 for the last.
    """

    text: str
    question: int = -1


@dataclass(frozen=True, slots=True)
class StopAnswer(Act):
    """Stop the answer that is being given; for `Meanwhile`."""


@dataclass(frozen=True, slots=True)
class InAnotherTab(Act):
    """Do something in a second tab, which has only watched before."""

    act: str | Act


@dataclass(frozen=True, slots=True, init=False)
class Meanwhile(Act):
    """Do `first`, and once so many items of its answer are there, do `acts`, one after the other, before it ends.

    The answer stands still until the server has heard of them all. With `after=0` it has not begun: the acts follow as
    soon as the server has heard of `first`.
    """

    first: Act
    acts: tuple[Act, ...]
    after: int

    def __init__(self, first: str | Act, *acts: str | Act, after: int = 1) -> None:
        object.__setattr__(self, "first", as_act(first))
        object.__setattr__(self, "acts", tuple(map(as_act, acts)))
        object.__setattr__(self, "after", after)
        self._check()

    def _check(self) -> None:
        if not self.acts:
            raise UsageError("unable to overlap; say what is to be done meanwhile: Meanwhile('first', 'second')")
        if isinstance(_bare(self.first), StopAnswer):
            raise UsageError("unable to overlap; a stop has no answer. Put it behind what it stops.")
        for act in (self.first, *self.acts):
            if isinstance(_bare(act), AskAndStop | Meanwhile):
                raise UsageError(f"unable to overlap; {type(_bare(act)).__name__} cannot stand in Meanwhile")


def as_act(given: str | Act) -> Act:
    """Return an act of a script; text is a question."""
    return Ask(given) if isinstance(given, str) else given


def _bare(act: Act) -> Act:
    return _bare(as_act(act.act)) if isinstance(act, InAnotherTab) else act
