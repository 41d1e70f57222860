"""Actions of a person, for the scripts of `assert_parity`: ask, approve, answer a call, stop, regenerate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import UsageError

__all__ = [
    "Approve",
    "Ask",
    "AskAndStop",
    "Deny",
    "Edit",
    "Give",
    "InAnotherTab",
    "Meanwhile",
    "Regenerate",
    "ScriptAction",
]
__all__ += ["StopAnswer", "as_action"]


@dataclass(frozen=True, slots=True)
class ScriptAction:
    """An action of a person. The next action follows when this one has had its effect."""


@dataclass(frozen=True, slots=True)
class Ask(ScriptAction):
    """Send a question; a plain string in a script is the same."""

    text: str
    body: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class AskAndStop(ScriptAction):
    """Send a question, and stop the answer after its first `after` items."""

    text: str
    after: int = 1


@dataclass(frozen=True, slots=True)
class Approve(ScriptAction):
    """Approve the waiting call of this tool."""

    tool: str


@dataclass(frozen=True, slots=True)
class Deny(ScriptAction):
    """Deny the waiting call of this tool."""

    tool: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Give(ScriptAction):
    """Send the result of a client tool that was called; with `error`, the text of its failure."""

    tool: str
    output: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Regenerate(ScriptAction):
    """Regenerate the last answer."""


@dataclass(frozen=True, slots=True)
class Edit(ScriptAction):
    """Replace an earlier question; the conversation continues on a new branch from there.

    `question` is the index of that question on the page: 0 for the first, -1 for the last.
    """

    text: str
    question: int = -1


@dataclass(frozen=True, slots=True)
class StopAnswer(ScriptAction):
    """Stop the running answer; for `Meanwhile`."""


@dataclass(frozen=True, slots=True)
class InAnotherTab(ScriptAction):
    """Do an action in a second tab."""

    act: str | ScriptAction


@dataclass(frozen=True, slots=True, init=False)
class Meanwhile(ScriptAction):
    """Do `first`, and after the first `after` items of its answer do `acts`, one after the other, before it ends.

    The answer is held until the server has received all of them. With `after=0` it has not begun: the acts follow as
    soon as the server has received `first`.
    """

    first: ScriptAction
    acts: tuple[ScriptAction, ...]
    after: int

    def __init__(self, first: str | ScriptAction, *acts: str | ScriptAction, after: int = 1) -> None:
        object.__setattr__(self, "first", as_action(first))
        object.__setattr__(self, "acts", tuple(map(as_action, acts)))
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


def as_action(given: str | ScriptAction) -> ScriptAction:
    """Return an action of a script; text is a question."""
    return Ask(given) if isinstance(given, str) else given


def _bare(act: ScriptAction) -> ScriptAction:
    return _bare(as_action(act.act)) if isinstance(act, InAnotherTab) else act
