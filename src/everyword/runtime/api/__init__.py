"""What the runtime asks of an agent's code and tells it. `agents` builds on this package and on `agent_runtime`."""

from __future__ import annotations

from ...core.commands import Policy
from ...core.state import Rules
from ...events import Outcome
from ..recovery import Continue, Decision, Recovery, Retry, Stop, Wait
from .agent_tool_runs import (
    WITHDRAWN,
    AnswersRuns,
    HasRunHook,
    RunAnswer,
    RunCall,
    RunChunk,
    RunQuestion,
    RunRecord,
    RunRequest,
)
from .calls import AnswersCalls, MethodCall, StreamItem
from .fibers import FiberRecord, FiberWork, RecoversFibers, RunningFiber
from .jobs import DeclaredJob, DeclaresJobs, JobCall, JobRecord, RunsJobs
from .responder import CanBeDestroyed, HasStartHook, Responder, StoresFiles, StreamFunction
from .storage import ManagedRecord, SqlResult, StreamRecord
from .turns import ApprovalDetails, CancelToken, Evaluate, StartToolCall, TurnCall, TurnRecord, TurnResult, Write
from .versions import VersionedPlace, VersionRecord

__all__ = [
    "WITHDRAWN",
    "AnswersCalls",
    "AnswersRuns",
    "ApprovalDetails",
    "CanBeDestroyed",
    "CancelToken",
    "Continue",
    "Decision",
    "DeclaredJob",
    "DeclaresJobs",
    "Evaluate",
    "FiberRecord",
    "FiberWork",
    "HasRunHook",
    "HasStartHook",
    "JobCall",
    "JobRecord",
    "ManagedRecord",
    "MethodCall",
    "Outcome",
    "Policy",
    "RecoversFibers",
    "Recovery",
    "Responder",
    "Retry",
    "Rules",
    "RunAnswer",
    "RunCall",
    "RunChunk",
    "RunQuestion",
    "RunRecord",
    "RunRequest",
    "RunningFiber",
    "RunsJobs",
    "SqlResult",
    "StartToolCall",
    "Stop",
    "StoresFiles",
    "StreamFunction",
    "StreamItem",
    "StreamRecord",
    "TurnCall",
    "TurnRecord",
    "TurnResult",
    "VersionRecord",
    "VersionedPlace",
    "Wait",
    "Write",
]
