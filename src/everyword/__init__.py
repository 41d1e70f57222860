"""Durable AI chat agents: conversations and streams that survive reloads, reconnects and `kill -9`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .agents import (
        Agent,
        AgentToolLimits,
        AgentToolOutput,
        AgentToolResult,
        AIChatAgent,
        AppHandle,
        Approval,
        ApprovalPage,
        Approvals,
        CallResult,
        ChatHandle,
        Connection,
        ConnectionRecord,
        Continue,
        Conversation,
        ConversationChange,
        ConversationExport,
        ConversationPage,
        Conversations,
        Debounce,
        ErasedAgent,
        ErasureReport,
        Every,
        FiberContext,
        Handle,
        Participant,
        Principals,
        Recovery,
        Retry,
        SaveMessagesResult,
        Share,
        Shares,
        Stop,
        SubAgentAddress,
        Think,
        ThinkHandle,
        ToolContext,
        Turn,
        TurnLimits,
        Wait,
        agent_tool,
        callable_method,
        create_ui_message_stream,
        get_current_agent,
        may_approve,
        scheduled,
        tool,
    )
    from .agents import callable_method as callable
    from .agents.streams.resumable_stream import ResumableStream
    from .agents.streams.stream_manager import ResumableStreamManager
    from .codec.lifecycle import LifecycleTracker, create_lifecycle_tracker
    from .errors import ChatError, EverywordError, ToolError
    from .messages.message import UIMessage
    from .messages.model_messages import convert_to_model_messages
    from .messages.prune_messages import prune_messages
    from .messages.speaker_names import with_speakers
    from .messages.validate_messages import validate_ui_messages
    from .principals import Principal
    from .runtime.attachments import Upload
    from .server.app import Everyword
    from .server.attachment_options import AttachmentOptions
    from .server.conversation_options import ConversationOptions
    from .server.limits import Limits
    from .server.notification import ApprovalNotice, Notification
    from .server.notifications import NotificationOptions
    from .server.permissions import Action, Connecting, Reject
    from .server.webhook_signatures import verify_webhook
    from .server.webhooks import Webhook

__all__ = [
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
]

__version__ = "0.1.0.dev0"

_MODULES: Final = {
    "ResumableStream": ".agents.streams.resumable_stream",
    "ResumableStreamManager": ".agents.streams.stream_manager",
    "LifecycleTracker": ".codec.lifecycle",
    "create_lifecycle_tracker": ".codec.lifecycle",
    "ChatError": ".errors",
    "EverywordError": ".errors",
    "ToolError": ".errors",
    "UIMessage": ".messages.message",
    "convert_to_model_messages": ".messages.model_messages",
    "prune_messages": ".messages.prune_messages",
    "with_speakers": ".messages.speaker_names",
    "validate_ui_messages": ".messages.validate_messages",
    "Principal": ".principals",
    "Everyword": ".server.app",
    "AttachmentOptions": ".server.attachment_options",
    "Upload": ".runtime.attachments",
    "ConversationOptions": ".server.conversation_options",
    "Limits": ".server.limits",
    "ApprovalNotice": ".server.notification",
    "Notification": ".server.notification",
    "NotificationOptions": ".server.notifications",
    "Action": ".server.permissions",
    "Connecting": ".server.permissions",
    "Reject": ".server.permissions",
    "verify_webhook": ".server.webhook_signatures",
    "Webhook": ".server.webhooks",
}
"""Public name → its module, as in the imports above; names that are not listed are in `.agents`.

Names are imported on first use. `import everyword` takes 0.02 s of CPU that way instead of 0.25 s: `everyword --help`,
and a server that wants to listen before its slow imports, depend on it.
"""

_SUBMODULES: Final = frozenset(
    {"agents", "client", "codec", "core", "cron", "errors", "events", "ids", "log", "messages", "models"}
    | {"observe", "principals", "runtime", "server", "testing", "wire"}
)
"""Submodules that can be read as attributes after a plain `import everyword`."""


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        value = import_module(f".{name}", __name__)
    elif name in __all__:
        module = import_module(_MODULES.get(name, ".agents"), __name__)
        value = getattr(module, "callable_method" if name == "callable" else name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
