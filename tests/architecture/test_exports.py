"""The public names are pinned: growing or shrinking them is a visible change of this file."""

from __future__ import annotations

import ast
import importlib
import json

import pytest

import everyword
from tests.architecture.tree import read_source

# package → its `__all__`, sorted. A package without `__all__` promises nothing and is not listed.
PUBLIC: dict[str, list[str]] = {
    "everyword": [
        "AIChatAgent",
        "Action",
        "Agent",
        "AgentToolLimits",
        "AgentToolOutput",
        "AgentToolResult",
        "AppHandle",
        "Approval",
        "ApprovalNotice",
        "ApprovalPage",
        "Approvals",
        "AttachmentOptions",
        "CallResult",
        "ChatError",
        "ChatHandle",
        "Connecting",
        "Connection",
        "ConnectionRecord",
        "Continue",
        "Conversation",
        "ConversationChange",
        "ConversationExport",
        "ConversationOptions",
        "ConversationPage",
        "Conversations",
        "Debounce",
        "ErasedAgent",
        "ErasureReport",
        "Every",
        "Everyword",
        "EverywordError",
        "FiberContext",
        "Handle",
        "LifecycleTracker",
        "Limits",
        "Notification",
        "NotificationOptions",
        "Participant",
        "Principal",
        "Principals",
        "Recovery",
        "Reject",
        "ResumableStream",
        "ResumableStreamManager",
        "Retry",
        "SaveMessagesResult",
        "Share",
        "Shares",
        "Stop",
        "SubAgentAddress",
        "Think",
        "ThinkHandle",
        "ToolContext",
        "ToolError",
        "Turn",
        "TurnLimits",
        "UIMessage",
        "Upload",
        "Wait",
        "Webhook",
        "__version__",
        "agent_tool",
        "callable",
        "callable_method",
        "convert_to_model_messages",
        "create_lifecycle_tracker",
        "create_ui_message_stream",
        "get_current_agent",
        "may_approve",
        "prune_messages",
        "scheduled",
        "tool",
        "validate_ui_messages",
        "verify_webhook",
        "with_speakers",
    ],
    "everyword.agents": [
        "AIChatAgent",
        "Agent",
        "AgentAttachments",
        "AgentTool",
        "AgentToolChunk",
        "AgentToolLimits",
        "AgentToolOutput",
        "AgentToolResult",
        "AgentToolRun",
        "AgentTools",
        "AppHandle",
        "Approval",
        "ApprovalPage",
        "Approvals",
        "CallResult",
        "ChatHandle",
        "ChatResponder",
        "Connection",
        "ConnectionRecord",
        "Continue",
        "Conversation",
        "ConversationChange",
        "ConversationExport",
        "ConversationPage",
        "Conversations",
        "Debounce",
        "ErasedAgent",
        "ErasureReport",
        "Every",
        "Fiber",
        "FiberContext",
        "Fibers",
        "Handle",
        "Job",
        "Jobs",
        "Participant",
        "Principals",
        "Recovery",
        "Retry",
        "SaveMessagesResult",
        "Share",
        "Shares",
        "Step",
        "StepContext",
        "Steps",
        "Stop",
        "SubAgentAddress",
        "SubAgents",
        "Submission",
        "Submissions",
        "Think",
        "ThinkHandle",
        "Tool",
        "ToolContext",
        "Turn",
        "TurnContext",
        "TurnLimits",
        "UIMessageStreamWriter",
        "Version",
        "Versions",
        "Wait",
        "agent_kind",
        "agent_tool",
        "callable_method",
        "client_tool",
        "create_ui_message_stream",
        "get_current_agent",
        "kebab",
        "may_approve",
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
        "AlreadyAnswered",
        "AttachmentMissing",
        "AttachmentRefused",
        "AttachmentsUnavailable",
        "BadChunk",
        "BadInput",
        "BadLinkFrame",
        "BadMessage",
        "BrokenApp",
        "CallFailed",
        "CallPending",
        "ChatError",
        "ChatFailed",
        "ClientError",
        "ConnectionLost",
        "ConversationNotFound",
        "EverywordError",
        "Fenced",
        "FiberCancelled",
        "FoldError",
        "JobNotDone",
        "LinkBusy",
        "LinkError",
        "LinkLost",
        "LinkRefused",
        "LinkTimeout",
        "LogCorrupt",
        "LogError",
        "LogLocked",
        "LogTooNew",
        "LogUnavailable",
        "MailboxFull",
        "MessageRefused",
        "ModelError",
        "NoJsonForm",
        "NotRecorded",
        "OutcomeUnknown",
        "OwnedElsewhere",
        "Rejected",
        "RemoteError",
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
        "WebhookRefused",
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
    "everyword.observe": [
        "AccessDecision",
        "Audit",
        "AuditRecord",
        "AuditSink",
        "EventHook",
        "Happened",
        "JsonFormatter",
        "LoopBlocked",
        "Metrics",
        "Observer",
        "Tracing",
        "Who",
    ],
    "everyword.server": ["Action", "Connecting", "Everyword", "Limits", "LoopWatchdog", "Principal", "Reject"],
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

# Packages that only other packages of ours import from.
INTERNAL = {
    *("everyword.runtime.agent_runtime", "everyword.runtime.api"),
    *(f"everyword.agents.{name}" for name in ("agent_tools", "handles", "state", "think", "tools")),
}


def packages() -> list[str]:
    """Return every package, and the modules that count as one."""
    names = [module.name for module in read_source() if module.is_package or module.name in MODULES]
    return ["everyword" if name == "__init__" else f"everyword.{name}" for name in names]


def actual() -> dict[str, list[str]]:
    exported = {name: getattr(importlib.import_module(name), "__all__", None) for name in packages()}
    return {name: sorted(names) for name, names in exported.items() if names is not None and name not in INTERNAL}


def test_public_names_are_the_pinned_ones() -> None:
    found = actual()
    assert found == PUBLIC, f"if this is meant, pin:\nPUBLIC = {json.dumps(found, indent=4)}"


@pytest.mark.parametrize("package", packages())
def test_every_public_name_exists(package: str) -> None:
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(names) == len(set(names))


def test_public_names_are_imported_from_where_type_checkers_read_them() -> None:
    (root,) = [module for module in read_source() if module.name == "__init__"]
    declared = {
        alias.asname or alias.name: getattr(importlib.import_module(f"everyword.{node.module}"), alias.name)
        for node in root.nodes()
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    assert declared.keys() == set(PUBLIC["everyword"]) - {"__version__"}
    assert {name for name, value in declared.items() if getattr(everyword, name) is not value} == set()
    assert set(PUBLIC["everyword"]) <= set(dir(everyword))
    with pytest.raises(AttributeError, match="module 'everyword' has no attribute 'Nothing'"):
        everyword.Nothing  # noqa: B018
