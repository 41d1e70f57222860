"""Every exception of everyword, grouped by who must act.

    EverywordError
    ├── UsageError            the developer: fix the call
    │   └── BrokenApp
    ├── ChatError             the developer, on purpose: its text is shown to clients
    │   ├── ModelError
    │   └── ToolError
    ├── CallPending           nobody: a turn ends with a question, and goes on with the answer
    ├── Stalled               nobody: the turn is tried again
    ├── SqlError              the developer: a statement on the agent's own database failed
    ├── Rejected              the caller: the rules say no, nothing was written
    │   ├── MessageRefused
    │   ├── UnknownTurn
    │   ├── StaleAttempt
    │   ├── MailboxFull
    │   ├── TooManyQueued
    │   ├── FiberCancelled
    │   └── AgentStopped
    │       └── AgentGone
    ├── TooFast               the peer: it sent more than the limits allow
    ├── BadInput              the peer: what it sent cannot be used
    │   ├── BadMessage
    │   ├── BadChunk
    │   ├── FoldError
    │   └── NoJsonForm
    ├── ClientError           who wrote the client: a server did not do what it wanted
    │   ├── ChatFailed
    │   ├── CallFailed
    │   ├── StateRefused
    │   ├── ConnectionLost
    │   ├── TurnedAway
    │   └── Unreachable
    └── LogError              the operator
        ├── Fenced
        ├── LogUnavailable
        ├── LogCorrupt
        ├── LogTooNew
        └── LogLocked

Messages read `unable to <do>; <why>` and, where somebody can act, say how. `code` is stable and is
what travels in frames and logs. `is_public` says whether clients may read the text: `public_text` decides it for every
text that leaves the process.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = ["AgentGone", "AgentStopped", "BadChunk", "BadInput", "BadMessage", "CallPending", "ChatError", "Fenced"]
__all__ += ["BrokenApp", "FiberCancelled", "FoldError", "NoJsonForm"]
__all__ += ["EverywordError", "LogCorrupt", "LogError", "LogLocked", "LogTooNew", "LogUnavailable"]
__all__ += ["MailboxFull", "MessageRefused", "ModelError", "Rejected", "StaleAttempt", "Stalled", "TooManyQueued"]
__all__ += ["ToolError"]
__all__ += ["UnknownTurn", "UsageError"]
__all__ += ["SqlError", "TooFast", "is_public", "public_text"]
__all__ += ["CallFailed", "ChatFailed", "ClientError", "ConnectionLost", "StateRefused", "TurnedAway", "Unreachable"]


class EverywordError(Exception):
    """The root: catch it to catch everything that everyword raises on purpose."""

    code: ClassVar[str] = "error"

    is_public: ClassVar[bool] = False
    """True when the text is written for clients. Of any other error they read a safe sentence; the log has the text."""


def public_text(exc: BaseException, otherwise: str) -> str:
    """Return what clients may read of an exception: its own text if its class is public, else the safe sentence."""
    return str(exc) if is_public(exc) else otherwise


def is_public(exc: BaseException) -> bool:
    """Tell whether the text of an exception is written for clients."""
    return isinstance(exc, EverywordError) and exc.is_public


class UsageError(EverywordError):
    """The call makes no sense as written; fixing the code is the only cure."""

    code = "usage"


class BrokenApp(UsageError):
    """An app cannot be imported, because its own code fails; the text is the traceback of that code."""

    code = "broken_app"


class ChatError(EverywordError):
    """End the turn with a text that clients may read.

    Any other exception of a handler is shown as a safe sentence; this one's text is shown as it is.
    """

    code = "chat"
    is_public = True


class ToolError(ChatError):
    """Fail a tool call with a text that the model and clients may read; of other exceptions neither reads the text."""

    code = "tool"


class ModelError(ChatError):
    """A model did not answer. Its text is for clients; `failure` says the rest, to whoever runs the agent.

    `retryable` says that the same question may be answered later: the turn is tried again, so long as it may be.
    """

    code = "model"

    def __init__(self, text: str, *, failure: object = None, retryable: bool = False) -> None:
        super().__init__(text)
        self.failure, self.retryable = failure, retryable


class CallPending(EverywordError):
    """A tool call waits for a person or the page. Let it pass: the turn ends here, and the answer starts another."""

    code = "call_pending"


class Stalled(EverywordError):
    """The model said nothing for too long; the turn is tried again."""

    code = "stalled"


class SqlError(EverywordError):
    """A statement on the agent's own database failed; nothing of it was written.

    `is_constraint` tells a broken UNIQUE, CHECK, NOT NULL or foreign key from everything else.
    """

    code = "sql"

    def __init__(self, text: str, *, is_constraint: bool = False) -> None:
        super().__init__(text)
        self.is_constraint = is_constraint


class Rejected(EverywordError):
    """The rules refuse a command. Nothing was written; asking again later may succeed."""

    code = "rejected"
    is_public = True


class MessageRefused(Rejected):
    """A client sent a message that it may not have stored: a part, a role or an id that is not allowed there."""

    code = "message_refused"


class UnknownTurn(Rejected):
    """No such turn, or it belongs to a conversation that was cleared."""

    code = "unknown_turn"


class StaleAttempt(Rejected):
    """A newer attempt runs, or the turn has ended: this runner has nothing more to say."""

    code = "stale_attempt"


class MailboxFull(Rejected):
    """The agent has more commands waiting than it may hold; try again in a moment."""

    code = "mailbox_full"


class TooManyQueued(Rejected):
    """More turns, connections or unfinished bodies than the limits allow; wait for some to end or raise the limit."""

    code = "too_many_queued"


class AgentStopped(Rejected):
    """The agent was unloaded or the process shuts down; reconnect and ask again."""

    code = "agent_stopped"


class AgentGone(AgentStopped):
    """The agent was destroyed, with all that it stored; its name is that of a new, empty one."""

    code = "agent_gone"


class FiberCancelled(Rejected):
    """A fiber was cancelled before it was done: there is no result to wait for."""

    code = "fiber_cancelled"


class TooFast(EverywordError):
    """A client sent more within a minute than the limits allow; `wait` is for how many milliseconds it is refused."""

    code = "too_fast"
    is_public = True

    def __init__(self, text: str, *, wait: int = 0) -> None:
        super().__init__(text)
        self.wait = wait


class BadInput(EverywordError):
    """What came from outside cannot be used; the text tells the sender why."""

    code = "bad_input"
    is_public = True


class BadMessage(BadInput):
    """A message without a usable id, role or list of parts."""

    code = "bad_message"


class BadChunk(BadInput):
    """A chunk that a client of the agreed version would reject."""

    code = "bad_chunk"
    is_public = False  # handlers and models make chunks, so the text is for the developer


class FoldError(BadInput):
    """A chunk that does not fit the message so far: the stock client throws here as well."""

    code = "fold"
    is_public = False  # like BadChunk

    def __init__(self, text: str, *, chunk_type: str = "", chunk_id: str = "") -> None:
        super().__init__(text)
        self.chunk_type = chunk_type
        self.chunk_id = chunk_id


class NoJsonForm(BadInput):
    """A value has no JSON form: an output, a result or a state of the agent's own code."""

    code = "no_json_form"
    is_public = False  # the text may quote what a serializer of the agent's own code raised


class LogError(EverywordError):
    """The log could not do what it was asked."""

    code = "log"


class Fenced(LogError):
    """Another owner holds the agent's lease; stop writing it at once and never retry."""

    code = "fenced"


class LogUnavailable(LogError):
    """Nothing was written (disk full, I/O error, closing); the same batch may be tried again later."""

    code = "log_unavailable"


class LogCorrupt(LogError):
    """Stored bytes cannot be read; names the agent and, where known, the place."""

    code = "log_corrupt"


class LogTooNew(LogError):
    """The database was written by a newer everyword; upgrade the package or use another file."""

    code = "log_too_new"


class LogLocked(LogError):
    """Another process holds the database file."""

    code = "log_locked"


class ClientError(EverywordError):
    """A server did not do what a client of it wanted."""

    code = "client"


class ChatFailed(ClientError):
    """A turn ended in error; the text is what the server shows to its clients."""

    code = "chat_failed"

    def __init__(self, text: str, *, request: str = "", message: object = None) -> None:
        super().__init__(text)
        self.request = request
        self.message = message
        """What was said before it failed."""


class CallFailed(ClientError):
    """A method of the agent failed, or there is none of that name; the text is the agent's."""

    code = "call_failed"


class StateRefused(ClientError):
    """The agent refused a state; the one before is in force."""

    code = "state_refused"


class ConnectionLost(ClientError):
    """The connection went away while a call ran: it may have run or not."""

    code = "connection_lost"


class TurnedAway(ClientError):
    """The server does not let this client in, and asking again is of no use.

    `status` is the close code of the socket, or the HTTP status.
    """

    code = "turned_away"

    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(text)
        self.status = status


class Unreachable(ClientError):
    """No server answered in time."""

    code = "unreachable"
