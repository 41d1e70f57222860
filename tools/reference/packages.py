"""What the reference is about: the public packages, and their names in groups."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["AGENT_CLASSES", "ALIASES", "FAMILIES", "FRAMEWORK", "MADE_BY_US", "PACKAGES", "documented", "ungrouped"]

Groups = dict[str, tuple[str, ...]]

PACKAGES: dict[str, tuple[str, Groups]] = {
    "everyword": (
        "The classes and functions for agents and servers. Import them from `everyword`.",
        {
            "Agents": ("Agent", "AIChatAgent", "Think", "Turn", "TurnLimits", "SaveMessagesResult", "UIMessage"),
            "Tools": (
                *("tool", "ToolContext", "agent_tool", "AgentToolResult", "AgentToolOutput", "AgentToolLimits"),
                "create_ui_message_stream",
            ),
            "Overlapping questions, recovery, jobs": (
                *("Debounce", "Recovery", "Continue", "Wait", "Stop", "Retry", "scheduled", "Every", "FiberContext"),
            ),
            "Connections and callable methods": (
                *("callable_method", "callable", "CallResult", "Connection", "get_current_agent", "SubAgentAddress"),
            ),
            "Agents from your own code": ("Handle", "ChatHandle", "ThinkHandle", "ConnectionRecord", "AppHandle"),
            "Personal data": ("Principals", "ErasureReport", "ErasedAgent"),
            "Conversations and approvals": (
                *("Conversations", "Conversation", "ConversationPage", "ConversationChange", "ConversationExport"),
                *("ConversationOptions", "AttachmentOptions", "Upload"),
                *("Share", "Shares"),
                *("Approvals", "Approval", "ApprovalPage", "Participant", "may_approve"),
            ),
            "Notifications": ("NotificationOptions", "Webhook", "Notification", "ApprovalNotice", "verify_webhook"),
            "The server": ("Everyword", "Principal", "Action", "Connecting", "Reject", "Limits"),
            "Custom streams": (
                *("ResumableStream", "ResumableStreamManager", "LifecycleTracker", "create_lifecycle_tracker"),
            ),
            "Messages": ("prune_messages", "convert_to_model_messages", "validate_ui_messages", "with_speakers"),
            "Errors": ("EverywordError", "ChatError", "ToolError"),
        },
    ),
    "everyword.client": (
        "The Python clients. They need the extra `client`.",
        {
            "Clients": ("ChatClient", "AgentClient", "Reply", "Options", "Backoff"),
            "Errors": (
                *("ClientError", "Unreachable", "TurnedAway", "ConnectionLost"),
                *("ChatFailed", "CallFailed", "StateRefused"),
            ),
        },
    ),
    "everyword.models": (
        "Convert a model provider's stream to chunks, and a conversation to a provider's format. It imports no SDK.",
        {
            "From a provider's stream": ("from_openai", "from_anthropic", "from_pydantic_ai", "from_iterator"),
            "To a provider": (
                *("to_openai", "to_openai_responses", "to_anthropic", "to_pydantic_ai"),
                *("from_pydantic_ai_messages", "deferred_results"),
            ),
            "Tools for a provider": ("openai_tools", "openai_responses_tools", "anthropic_tools"),
            "Failures": ("ModelFailure", "classify", "failure_of"),
        },
    ),
    "everyword.fastapi": (
        "Helpers for agents inside a FastAPI application. They need `fastapi`.",
        {"Authentication": ("authenticate_with",)},
    ),
    "everyword.testing": (
        "The test kit: a scripted model, a server that a test can kill, and a check that every client sees the same.",
        {
            "A model and a server": ("ScriptedModel", "LocalServer", "ManualClock"),
            "Items of a scripted answer": ("Call", "Once", "Reasoning"),
            "Parity": (
                *("assert_parity", "Parity", "Ask", "Approve", "Deny", "Give", "Regenerate", "Edit"),
                *("AskAndStop", "Meanwhile", "StopAnswer", "InAnotherTab"),
            ),
            "Below the server": ("Gate", "CrashingLog", "ScriptedResponder"),
        },
    ),
}

AGENT_CLASSES = ("Agent", "AIChatAgent", "Think")
"""Classes of `everyword` that users subclass: they have a page of their own."""

FAMILIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "jobs": ("Jobs", ("Job",)),
    "fibers": ("Fibers", ("Fiber",)),
    "sub_agents": ("SubAgents", ()),
    "agent_tools": ("AgentTools", ("AgentToolRun", "AgentToolChunk")),
    "versions": ("Versions", ("Version",)),
    "submissions": ("Submissions", ("Submission",)),
}
"""Attributes of agents that keep methods together: the class of `everyword.agents` behind each, and what it returns."""

ALIASES = {"Action": "everyword.server.permissions"}
"""Public names of types that are no classes, and the modules that say what they are."""

FRAMEWORK: dict[str, tuple[str, ...]] = {
    "SaveMessagesResult": ("of",),
    "AgentToolResult": ("of", "for_model"),
    "AgentToolRun": ("of",),
    "Version": ("of",),
    "Submission": ("of",),
    "Every": ("milliseconds",),
    "Everyword": ("service", "access_policy", "kinds_of", "class_of_kind"),
    "AttachmentOptions": ("opened", "rules", "secret"),
    "ConversationOptions": ("rules",),
    "NotificationOptions": ("apply", "delay_millis", "approval_url"),
    "AppHandle": ("class_of_kind",),
    "AgentClient": ("spawn",),
    "ChatClient": ("read_missed_answer",),
}
"""Members that only the framework uses, by class."""

MADE_BY_US = frozenset(
    {*AGENT_CLASSES, "Turn", "Connection", "FiberContext", "Reply", "Handle", "ChatHandle", "ThinkHandle", "AppHandle"}
    | {
        "Conversations",
        "Principals",
        "Conversation",
        "ConversationPage",
        "ConversationChange",
        "ConversationExport",
        "Approvals",
        "Approval",
        "ApprovalPage",
    }
    | {"Participant"}
)
"""Classes whose objects users are given, and do not make."""


def documented(package: str, name: str) -> Any:
    return getattr(importlib.import_module(package), name)


def ungrouped(package: str) -> list[str]:
    """Return the names that the package exports and the page lacks, or lists twice, or has of its own."""
    public = [name for name in importlib.import_module(package).__all__ if name != "__version__"]
    listed = [name for names in PACKAGES[package][1].values() for name in names]
    return sorted({*public} ^ {*listed} | {name for name in listed if listed.count(name) > 1})
