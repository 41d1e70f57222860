"""Runs of agent tools and their results, and the types that their outputs must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

from ...errors import BadInput, public_text
from ...runtime.api import RunRecord

__all__ = ["AgentToolChunk", "AgentToolOutput", "AgentToolResult", "AgentToolRun"]
__all__ += ["find_output_type", "output_types_of", "register_output_type", "type_name", "validate_as"]

_output_types: WeakKeyDictionary[type, dict[str, Any]] = WeakKeyDictionary()
"""Class of sub-agents → name → a type that their output may be required to have."""


@dataclass(frozen=True, slots=True)
class AgentToolRun:
    """A run as it is now. Times are seconds since 1970; an `interrupted` run may still get another status."""

    run_id: str
    agent_type: str
    status: Literal["running", "completed", "error", "aborted", "interrupted"]
    input: Any = None
    parent_tool_call_id: str | None = None
    input_preview: str | None = None
    display: Any = None
    detached: bool = False
    summary: str | None = None
    output: Any = None
    error: str | None = None
    reason: str | None = None
    child_still_running: bool | None = None
    started_at: float = 0.0
    ended_at: float | None = None

    @classmethod
    def of(cls, record: RunRecord) -> AgentToolRun:
        """Translate the runtime's record."""
        return cls(
            run_id=record.run,
            agent_type=record.kind,
            status=record.status,
            input=record.input,
            parent_tool_call_id=record.call,
            input_preview=record.preview,
            display=record.display,
            detached=record.is_detached,
            summary=record.summary,
            output=record.output,
            error=record.error,
            reason=record.reason,
            child_still_running=record.is_child_running,
            started_at=record.started_at / 1000,
            ended_at=record.ended_at / 1000 if record.ended_at is not None else None,
        )


@dataclass(frozen=True, slots=True)
class AgentToolResult:
    """How a run ended; `running` if it is detached. `output` has the `output_type`, if one was given."""

    run_id: str
    """The id of the run, and the name of the sub-agent."""
    agent_type: str
    """The kind of the sub-agent."""
    status: Literal["running", "completed", "error", "aborted", "interrupted"]
    """The status of the run; `interrupted` if the parent no longer waits for it."""
    summary: str | None = None
    """The text of a completed run."""
    output: Any = None
    """The output of a completed run, if an `output_type` was given."""
    error: str | None = None
    """What went wrong, for people."""
    reason: str | None = None
    """Why the run was stopped or given up."""
    child_still_running: bool | None = None
    """Of an interrupted run: whether its sub-agent goes on."""

    @classmethod
    def of(cls, record: RunRecord, output_type: Any = None) -> AgentToolResult:
        """Translate the runtime's record; an output that does not fit its type makes it an error."""
        status, output, error = record.status, record.output, record.error
        if status == "completed" and output_type is not None:
            try:
                output = validate_as(output_type, output)
            except BadInput as exc:
                status, output, error = "error", None, public_text(exc, "The output does not fit.")
        return cls(
            record.run, record.kind, status, record.summary, output, error, record.reason, record.is_child_running
        )

    def for_model(self, *, has_output: bool = False) -> Any:
        """Return the value for the model: the text or the output; for a failure, the error and whether to try again."""
        if self.status == "completed":
            return self.output if has_output else self.summary or ""
        if self.status == "running":
            return {"runId": self.run_id, "agentType": self.agent_type, "status": "running"}
        told: dict[str, Any] = {"ok": False, "status": self.status}
        told["error"] = self.error or self.reason or f"The run was {self.status}."
        told["retryable"] = self.status == "interrupted"
        if self.reason is not None:
            told["reason"] = self.reason
        if self.child_still_running is not None:
            told["childStillRunning"] = self.child_still_running
        return told


@dataclass(frozen=True, slots=True)
class AgentToolChunk:
    """One chunk of a sub-agent's answer, as JSON text; `sequence` counts from 0."""

    sequence: int
    body: str


@dataclass(frozen=True, slots=True)
class AgentToolOutput:
    """The output of an agent that works as a tool: a text, and optionally a JSON value."""

    summary: str
    """The text for the parent, and for its model unless an `output_type` was given."""
    output: Any = None
    """The output, as JSON; None for none."""


# -- types of outputs ------------------------------------------------------------------------------------------------


def type_name(output_type: Any) -> str:
    """Return the name of a type in the log."""
    return output_type.__name__ if isinstance(output_type, type) else str(output_type)


def register_output_type(child: type, output_type: Any) -> str:
    """Record a type that outputs of this class may be required to have; return its name."""
    name = type_name(output_type)
    _output_types.setdefault(child, {})[name] = output_type
    return name


def find_output_type(child: type, name: str) -> Any:
    """Return the output type of that name, of this class or one above it; None if it was not registered.

    Types that a class lists in `output_types` are also known after a restart.
    """
    for base in child.__mro__:
        found = _output_types.get(base, {}).get(name)
        if found is not None:
            return found
    declared = getattr(child, "output_types", ())
    return next((each for each in declared if type_name(each) == name), None)


def output_types_of(child: type) -> list[Any]:
    """Return the registered output types of this class and those above it."""
    return [each for base in child.__mro__ for each in _output_types.get(base, {}).values()]


def validate_as(output_type: Any, value: Any) -> Any:
    """Return the object of a type that a JSON value stands for.

    Raises:
        BadInput: it does not fit; the text says where.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(output_type).validate_python(value)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(map(str, first["loc"])) or "it"
        raise BadInput(f"The output does not fit {type_name(output_type)}; {place}: {first['msg']}") from None
