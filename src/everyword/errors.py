"""The exceptions of everyword, grouped by who must act.

    EverywordError
    ├── UsageError            the developer: the API was used incorrectly
    │   └── BrokenApp
    ├── ChatError             raised by the developer on purpose: clients see its text
    │   ├── ModelError
    │   └── ToolError
    ├── CallPending           no one: the turn ends, and the answer to the call starts the next turn
    ├── Stalled               no one: the turn is retried
    ├── JobNotDone            no one: the job is tried again, or given up
    ├── SqlError              the developer: a statement on the agent's own database failed
    ├── Rejected              the caller: a rule refuses the command, nothing was written
    │   ├── ConversationNotFound
    │   ├── AlreadyAnswered
    │   ├── MessageRefused
    │   │   └── AttachmentRefused
    │   ├── AttachmentMissing
    │   ├── UnknownTurn
    │   ├── StaleAttempt
    │   ├── MailboxFull
    │   ├── TooManyQueued
    │   ├── FiberCancelled
    │   └── AgentStopped
    │       ├── AgentGone
    │       └── OwnedElsewhere
    ├── NotRecorded           the operator: the audit trail cannot be written, and requests need it
    ├── TooFast               the client: it sent more than the rate limits allow
    ├── BadInput              the sender: the input is invalid
    │   ├── WebhookRefused
    │   ├── BadMessage
    │   ├── BadChunk
    │   ├── FoldError
    │   └── NoJsonForm
    ├── ClientError           the developer of the client: a request to the server failed
    │   ├── ChatFailed
    │   ├── CallFailed
    │   ├── StateRefused
    │   ├── ConnectionLost
    │   ├── TurnedAway
    │   └── Unreachable
    ├── LinkError             the operator: the link to another node failed
    │   ├── LinkRefused
    │   ├── LinkLost
    │   ├── LinkTimeout
    │   ├── LinkBusy
    │   ├── BadLinkFrame
    │   └── RemoteError
    └── LogError              the operator: the log failed
        ├── Fenced
        ├── LogUnavailable
        ├── OutcomeUnknown
        ├── AttachmentsUnavailable
        ├── LogCorrupt
        ├── LogTooNew
        └── LogLocked

Messages read `unable to <do>; <why>`, and say what to do where the reader can act. `code` is stable; frames and logs
carry it. `is_public` says whether clients may read the text; every text that leaves the process goes through
`public_text`.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AgentGone",
    "AgentStopped",
    "AlreadyAnswered",
    "BadChunk",
    "BadInput",
    "BadMessage",
    "CallPending",
    "ChatError",
    "Fenced",
]
__all__ += ["BrokenApp", "ConversationNotFound", "FiberCancelled", "FoldError", "NoJsonForm", "NotRecorded"]
__all__ += ["EverywordError", "LogCorrupt", "LogError", "LogLocked", "LogTooNew", "LogUnavailable"]
__all__ += [
    "MailboxFull",
    "MessageRefused",
    "ModelError",
    "OutcomeUnknown",
    "OwnedElsewhere",
    "Rejected",
    "StaleAttempt",
    "Stalled",
    "TooManyQueued",
]
__all__ += ["ToolError"]
__all__ += ["UnknownTurn", "UsageError"]
__all__ += ["BadLinkFrame", "LinkBusy", "LinkError", "LinkLost", "LinkRefused", "LinkTimeout", "RemoteError"]
__all__ += ["AttachmentMissing", "AttachmentRefused", "AttachmentsUnavailable"]
__all__ += ["SqlError", "TooFast", "is_public", "public_text"]
__all__ += ["JobNotDone", "WebhookRefused"]
__all__ += ["CallFailed", "ChatFailed", "ClientError", "ConnectionLost", "StateRefused", "TurnedAway", "Unreachable"]


class EverywordError(Exception):
    """Base class of all exceptions that everyword raises on purpose."""

    code: ClassVar[str] = "error"

    is_public: ClassVar[bool] = False
    """True when the text is written for clients. Otherwise they read a generic sentence, and the text is logged."""


def public_text(exc: BaseException, otherwise: str) -> str:
    """Return the text that clients may read: the exception's own if its class is public, else `otherwise`."""
    return str(exc) if is_public(exc) else otherwise


def is_public(exc: BaseException) -> bool:
    """Return True if the text of the exception is written for clients."""
    return isinstance(exc, EverywordError) and exc.is_public


class UsageError(EverywordError):
    """The API was used incorrectly. Fix the code; retrying does not help."""

    code = "usage"


class BrokenApp(UsageError):
    """The app cannot be imported because its own code fails. The text is the traceback of that code."""

    code = "broken_app"


class ChatError(EverywordError):
    """Raise this in a handler to end the turn with a text that clients read.

    For any other exception of a handler, clients read a generic sentence.
    """

    code = "chat"
    is_public = True


class ToolError(ChatError):
    """Raise this in a tool to fail the call with a text that the model and clients read.

    Neither reads the text of any other exception.
    """

    code = "tool"


class ModelError(ChatError):
    """The model did not answer. The text is for clients; `failure` has the details for the operator.

    With `retryable`, the same request may succeed later, and the turn is retried within its limits.
    """

    code = "model"

    def __init__(self, text: str, *, failure: object = None, retryable: bool = False) -> None:
        super().__init__(text)
        self.failure, self.retryable = failure, retryable


class CallPending(EverywordError):
    """A tool call waits for an approval or for the page.

    Do not catch it: the turn ends here, and the answer to the call starts the next turn.
    """

    code = "call_pending"


class Stalled(EverywordError):
    """The model sent no output for too long. The turn is retried."""

    code = "stalled"


class JobNotDone(EverywordError):
    """A job of the framework could not be finished, for example because the receiver of a notification is down.

    `again_after` is the number of milliseconds after which it is tried again; None if that does not help. A job that is
    postponed has not failed, and the attempt does not count.
    """

    code = "job_not_done"

    def __init__(self, text: str, again_after: int | None = None, *, is_postponed: bool = False) -> None:
        super().__init__(text)
        self.again_after, self.is_postponed = again_after, is_postponed


class SqlError(EverywordError):
    """A statement on the agent's own database failed; nothing of it was written.

    `is_constraint` is true for a violated UNIQUE, CHECK, NOT NULL or foreign key constraint.
    """

    code = "sql"

    def __init__(self, text: str, *, is_constraint: bool = False) -> None:
        super().__init__(text)
        self.is_constraint = is_constraint


class Rejected(EverywordError):
    """A rule refuses the command. Nothing was written; a later attempt may succeed."""

    code = "rejected"
    is_public = True


class ConversationNotFound(Rejected):
    """A conversation or an approval does not exist, or no longer does."""

    code = "conversation_not_found"


class AlreadyAnswered(Rejected):
    """An approval was given or refused before, or its time is over."""

    code = "already_answered"


class MessageRefused(Rejected):
    """A client sent a message that it may not store, because of a part, the role or the id."""

    code = "message_refused"


class AttachmentRefused(MessageRefused):
    """An upload, or a file in a message, may not be stored: its size, its type, a quota, or the app's own check.

    `status` is the HTTP status of the refusal: 413, 415, 422 or 507.
    """

    code = "attachment_refused"

    def __init__(self, text: str, *, status: int = 422) -> None:
        super().__init__(text)
        self.status = status


class AttachmentMissing(Rejected):
    """The content of an attachment is not stored: it was never uploaded, or it was deleted."""

    code = "attachment_missing"


class UnknownTurn(Rejected):
    """There is no such turn, or it belongs to a conversation that was cleared."""

    code = "unknown_turn"


class StaleAttempt(Rejected):
    """A newer attempt runs, or the turn has ended. This attempt can no longer write."""

    code = "stale_attempt"


class MailboxFull(Rejected):
    """The agent's mailbox has no room for another command. Try again in a moment."""

    code = "mailbox_full"


class TooManyQueued(Rejected):
    """More turns, connections or unfinished bodies than the limits allow.

    Wait for some to end, or raise the limit that the text names.
    """

    code = "too_many_queued"


class AgentStopped(Rejected):
    """The agent was unloaded, or the process is shutting down. Reconnect and try again."""

    code = "agent_stopped"


class AgentGone(AgentStopped):
    """The agent was destroyed, with all that it stored. A new, empty agent may now use its name."""

    code = "agent_gone"


class OwnedElsewhere(AgentStopped):
    """Another node owns the agent. Its incarnation is `node`; the server relays to it."""

    code = "owned_elsewhere"

    def __init__(self, text: str, *, node: int) -> None:
        super().__init__(text)
        self.node = node


class FiberCancelled(Rejected):
    """The fiber was cancelled before it finished, so it has no result."""

    code = "fiber_cancelled"


class NotRecorded(EverywordError):
    """A record of the audit trail could not be written, and the request needs it: `Audit(required=True)`."""

    code = "not_recorded"


class TooFast(EverywordError):
    """A client sent more within a minute than the limits allow. It is refused for `wait` milliseconds."""

    code = "too_fast"
    is_public = True

    def __init__(self, text: str, *, wait: int = 0) -> None:
        super().__init__(text)
        self.wait = wait


class BadInput(EverywordError):
    """Input from outside is invalid. The text tells the sender why."""

    code = "bad_input"
    is_public = True


class WebhookRefused(BadInput):
    """A request is not a webhook that was signed with the secret, or it was signed too long ago."""

    code = "webhook_refused"


class BadMessage(BadInput):
    """A message has no valid id, role or list of parts."""

    code = "bad_message"


class BadChunk(BadInput):
    """A client of the agreed AI SDK version would reject the chunk."""

    code = "bad_chunk"
    is_public = False  # Chunks come from handlers and models, so the text is for the developer.


class FoldError(BadInput):
    """A chunk does not fit the message so far. The stock client throws here as well."""

    code = "fold"
    is_public = False  # The text is for the developer, as in BadChunk.

    def __init__(self, text: str, *, chunk_type: str = "", chunk_id: str = "") -> None:
        super().__init__(text)
        self.chunk_type = chunk_type
        self.chunk_id = chunk_id


class NoJsonForm(BadInput):
    """A value of the agent's own code (an output, a result or a state) cannot be converted to JSON."""

    code = "no_json_form"
    is_public = False  # The text may quote an exception of the agent's own serializer.


class LogError(EverywordError):
    """An operation of the log failed."""

    code = "log"


class Fenced(LogError):
    """Another owner holds the agent's lease. Stop writing to this agent at once, and never retry."""

    code = "fenced"


class LogUnavailable(LogError):
    """Nothing was written (disk full, I/O error, closing). The same batch may be retried later."""

    code = "log_unavailable"


class OutcomeUnknown(LogError):
    """The connection to the store was lost during a write: it may be written or not. Read before you try again."""

    code = "outcome_unknown"


class AttachmentsUnavailable(LogError):
    """The folder or the bucket with the attachments cannot be used, or none is configured."""

    code = "attachments_unavailable"


class LogCorrupt(LogError):
    """Stored bytes cannot be read. The text names the agent and, where known, the place."""

    code = "log_corrupt"


class LogTooNew(LogError):
    """The database was written by a newer version of everyword. Upgrade the package, or use another file."""

    code = "log_too_new"


class LogLocked(LogError):
    """Another process holds the database file. Stop that process, or use another file."""

    code = "log_locked"


class LinkError(EverywordError):
    """Base class of the exceptions of a link, the connection between two nodes."""

    code = "link"


class LinkRefused(LinkError):
    """Two nodes do not agree: another secret, another version, or another node than was expected.

    `reason` is what this node tells the other; it is empty if the other node refused.
    """

    code = "link_refused"

    def __init__(self, text: str, *, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason


class LinkLost(LinkError):
    """There is no link to the other node, or it was lost. A call that was under way may or may not have run."""

    code = "link_lost"


class LinkTimeout(LinkError):
    """The other node did not answer a call in time. The call may or may not have run."""

    code = "link_timeout"


class LinkBusy(LinkError):
    """There are more links, or more streams on one link, than the limits allow. Nothing was sent."""

    code = "link_busy"


class BadLinkFrame(LinkError):
    """The other end of a link sent something that is not of the protocol. The link is cut."""

    code = "bad_link_frame"


class RemoteError(LinkError):
    """The other node refused a call, or the call failed there. `remote_code` is the code of the error there.

    The text is the other node's, and written for clients. The details are in the other node's log.
    """

    code = "remote"

    def __init__(self, text: str, *, remote_code: str = "error") -> None:
        super().__init__(text)
        self.remote_code = remote_code


class ClientError(EverywordError):
    """Base class of the exceptions that `everyword.client` raises: a request to the server failed."""

    code = "client"


class ChatFailed(ClientError):
    """The turn ended in error. The text is the one that the server sends to its clients."""

    code = "chat_failed"

    def __init__(self, text: str, *, request: str = "", message: object = None) -> None:
        super().__init__(text)
        self.request = request
        self.message = message
        """The answer so far, if the turn had begun one."""


class CallFailed(ClientError):
    """A method of the agent failed, or does not exist. The text is the agent's."""

    code = "call_failed"


class StateRefused(ClientError):
    """The agent refused the state. The previous state is in force."""

    code = "state_refused"


class ConnectionLost(ClientError):
    """The connection was lost during a call, which may or may not have run."""

    code = "connection_lost"


class TurnedAway(ClientError):
    """The server refuses this client, and retrying does not help.

    `status` is the close code of the socket, or the HTTP status.
    """

    code = "turned_away"

    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(text)
        self.status = status


class Unreachable(ClientError):
    """No server answered in time."""

    code = "unreachable"
