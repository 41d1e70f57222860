"""The public names are pinned: growing or shrinking them is a visible change of this file."""

from __future__ import annotations

import importlib
import json

import pytest

from tests.architecture.tree import read_source

# package → its `__all__`, sorted. A package without `__all__` promises nothing and is not listed.
PUBLIC: dict[str, list[str]] = {
    "everyword": [
        "AIChatAgent",
        "Agent",
        "AgentToolResult",
        "CallResult",
        "ChatError",
        "Connecting",
        "Connection",
        "Continue",
        "Debounce",
        "Every",
        "Everyword",
        "EverywordError",
        "FiberContext",
        "LifecycleTracker",
        "Limits",
        "Principal",
        "Recovery",
        "Reject",
        "ResumableStream",
        "ResumableStreamManager",
        "Retry",
        "SaveMessagesResult",
        "Stop",
        "SubAgentAddress",
        "Think",
        "ToolContext",
        "ToolError",
        "Turn",
        "UIMessage",
        "Wait",
        "__version__",
        "agent_tool",
        "callable",
        "callable_method",
        "convert_to_model_messages",
        "create_lifecycle_tracker",
        "create_ui_message_stream",
        "get_current_agent",
        "prune_messages",
        "scheduled",
        "tool",
        "validate_ui_messages",
    ],
    "everyword.agents": [
        "AIChatAgent",
        "Agent",
        "AgentTool",
        "AgentToolChunk",
        "AgentToolResult",
        "AgentToolRun",
        "CallResult",
        "ChatResponder",
        "Connection",
        "Continue",
        "Debounce",
        "Every",
        "Fiber",
        "FiberContext",
        "Job",
        "Recovery",
        "Retry",
        "SaveMessagesResult",
        "Schedule",
        "Step",
        "StepContext",
        "Steps",
        "Stop",
        "SubAgentAddress",
        "Submission",
        "Think",
        "Tool",
        "ToolContext",
        "Turn",
        "TurnContext",
        "UIMessageStreamWriter",
        "Version",
        "Wait",
        "agent_kind",
        "agent_tool",
        "callable_method",
        "client_tool",
        "create_ui_message_stream",
        "get_current_agent",
        "kebab",
        "responder_for",
        "scheduled",
        "tool",
        "tools_of",
    ],
    "everyword.client": [
        "AgentClient",
        "Backoff",
        "CallFailed",
        "ChatClient",
        "ChatFailed",
        "ClientError",
        "ConnectionLost",
        "Options",
        "Reply",
        "StateRefused",
        "TurnedAway",
        "Unreachable",
    ],
    "everyword.demo": ["Demo"],
    "everyword.errors": [
        "AgentGone",
        "AgentStopped",
        "BadChunk",
        "BadInput",
        "BadMessage",
        "BrokenApp",
        "CallFailed",
        "CallPending",
        "ChatError",
        "ChatFailed",
        "ClientError",
        "ConnectionLost",
        "EverywordError",
        "Fenced",
        "FiberCancelled",
        "FoldError",
        "LogCorrupt",
        "LogError",
        "LogLocked",
        "LogTooNew",
        "LogUnavailable",
        "MailboxFull",
        "MessageRefused",
        "ModelError",
        "NoJsonForm",
        "Rejected",
        "SqlError",
        "StaleAttempt",
        "Stalled",
        "StateRefused",
        "TooFast",
        "TooManyQueued",
        "ToolError",
        "TurnedAway",
        "UnknownTurn",
        "Unreachable",
        "UsageError",
        "is_public",
        "public_text",
    ],
    "everyword.models": [
        "ModelFailure",
        "anthropic_tools",
        "classify",
        "deferred_results",
        "failure_of",
        "from_anthropic",
        "from_iterator",
        "from_openai",
        "from_pydantic_ai",
        "from_pydantic_ai_messages",
        "openai_responses_tools",
        "openai_tools",
        "to_anthropic",
        "to_openai",
        "to_openai_responses",
        "to_pydantic_ai",
    ],
    "everyword.observe": ["EventHook", "Happened", "JsonFormatter", "LoopBlocked", "Metrics", "Observer", "Tracing"],
    "everyword.server": ["Connecting", "Everyword", "Limits", "LoopWatchdog", "Principal", "Reject"],
    "everyword.testing": [
        "Approve",
        "Ask",
        "AskAndStop",
        "Call",
        "CrashingLog",
        "Deny",
        "Edit",
        "Gate",
        "Give",
        "InAnotherTab",
        "LocalServer",
        "ManualClock",
        "Meanwhile",
        "Once",
        "Parity",
        "Reasoning",
        "Regenerate",
        "ScriptedModel",
        "ScriptedResponder",
        "StopAnswer",
        "assert_parity",
    ],
    "everyword.testing.simulation": ["Run", "simulate"],
    "everyword.web": ["Page"],
}

# Modules that users import from although they are no packages.
MODULES = {"errors"}


def packages() -> list[str]:
    """Return every package, and the modules that count as one."""
    names = [module.name for module in read_source() if module.is_package or module.name in MODULES]
    return ["everyword" if name == "__init__" else f"everyword.{name}" for name in names]


def actual() -> dict[str, list[str]]:
    exported = {name: getattr(importlib.import_module(name), "__all__", None) for name in packages()}
    return {name: sorted(names) for name, names in exported.items() if names is not None}


def test_public_names_are_the_pinned_ones() -> None:
    found = actual()
    assert found == PUBLIC, f"if this is meant, pin:\nPUBLIC = {json.dumps(found, indent=4)}"


@pytest.mark.parametrize("package", packages())
def test_every_public_name_exists(package: str) -> None:
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(names) == len(set(names))
