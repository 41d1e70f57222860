"""Agent tool runs as agents' own code knows them: requests to a sub-agent that works as a tool, and their records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, runtime_checkable

from ...ids import CallId, Millis, RunId, TurnId

if TYPE_CHECKING:
    from .turns import TurnResult

__all__ = ["HasRunHook", "RunAnswer", "RunCall", "RunChunk", "RunQuestion", "RunRecord", "RunRequest"]
__all__ += ["WITHDRAWN", "AnswersRuns"]

WITHDRAWN: Final = "The agent that asked works as a tool, and cannot wait for an approval."
"""Why a call that waits for an approval when a run ends is denied."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a sub-agent is to do. A run id that is known is not started twice; with a `refusal` it is not at all."""

    run: RunId
    kind: str
    input: Any
    call: CallId | None = None
    within: TurnId | None = None
    preview: str | None = None
    order: int | None = None
    display: Any = None
    is_detached: bool = False
    expects: str | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as it stands."""

    run: RunId
    kind: str
    status: Literal["running", "completed", "error", "aborted", "interrupted"]
    call: CallId | None
    input: Any
    preview: str | None
    order: int
    display: Any
    is_detached: bool
    summary: str | None
    output: Any
    error: str | None
    reason: str | None
    is_child_running: bool | None
    started_at: Millis
    ended_at: Millis | None


@dataclass(frozen=True, slots=True)
class RunChunk:
    """One chunk of what a run's sub-agent says, as JSON text; `index` counts from 0."""

    index: int
    body: str


@dataclass(frozen=True, slots=True)
class RunCall:
    """A run, as its sub-agent gets it. `expects` names the type that its output is to have."""

    run: RunId
    input: Any
    expects: str | None = None


@dataclass(frozen=True, slots=True)
class RunQuestion:
    """A run's input as a sub-agent's turn: the messages to answer, and what comes with them."""

    messages: Sequence[dict[str, Any]]
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """The result of a sub-agent's turn for the calling agent: text, and a JSON value if there is one."""

    summary: str
    output: Any = None


@runtime_checkable
class AnswersRuns(Protocol):
    """A responder whose agent can work as a tool of another."""

    async def run_question(self, call: RunCall) -> RunQuestion:
        """Return the question that a run's input is; the same for the same run."""
        ...

    async def run_answer(self, call: RunCall, result: TurnResult) -> RunAnswer:
        """Return what a completed turn comes to; raising makes the run an error."""
        ...


@runtime_checkable
class HasRunHook(Protocol):
    """A responder with a hook for the end of runs; called only if `rules.has_run_hook`."""

    async def on_run_finished(self, record: RunRecord) -> None: ...
