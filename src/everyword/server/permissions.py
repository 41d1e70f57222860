"""The two hooks of an app for access control (I-14): `authenticate` and `authorize`.

`authenticate(request)` is called once per request or socket and identifies the client.
`authorize(principal, action, kind, name)` is called for each action. The older shorthand, `authorize(connecting)`, does
both at once, when a client connects.
"""

from __future__ import annotations

import inspect
import logging
import reprlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from starlette.requests import HTTPConnection

from ..agents.handles.approvals import Approval, may_approve
from ..agents.handles.shares import SHARED
from ..errors import UsageError
from ..events import Identity
from ..observe.api import AccessDecision
from ..principals import LOCAL, Principal
from ..runtime.clock import Clock, SystemClock
from .refusals import EXPIRED, NOT_ALLOWED, UNCHECKED, UNKNOWN_CLIENT, UNRECORDED

__all__ = ["CHANGES", "NO_DETAILS", "Action", "Authenticate", "Authorize", "Connecting", "Permissions", "Permit"]
__all__ += ["Reject", "describe_verdict"]

log = logging.getLogger("everyword.server")

Action = Literal[
    "connect",
    "read",
    "ask",
    "stop",
    "answer",
    "edit",
    "clear",
    "state",
    "call",
    "send",
    "request",
    "list",
    "manage",
    "delete",
    "share",
]
"""The actions of clients. Later versions may add some: let `authorize` refuse an action that it does not know.

`connect`: open a socket, which reads the conversation and the state. `read`: read the messages, a stream or the log
over HTTP. `ask`: ask a question, edit one, or ask for another answer. `stop`: stop a turn. `answer`: send a tool's
result, or approve a call. `edit`: store messages (`setMessages`). `clear`: clear the conversation. `state`: set the
state. `call`: call a callable method. `send`: send a frame for `on_message`. `request`: send an HTTP request for
`on_request`. `list`: see the conversation, and the approvals that it waits for, in lists. `manage`: rename, archive or
describe the conversation. `delete`: delete it. `share`: create, list and
revoke links with which anyone may read the conversation.
"""

CHANGES: Final = frozenset({"ask", "stop", "answer", "edit", "clear", "state", "manage", "delete", "share"})
"""Actions that a read-only client may never do. `call`, `send` and `request` are allowed where the agent says so."""


@dataclass(frozen=True, slots=True)
class Connecting:
    """A client that connects: its request, and the agent that the request is for.

    `path` leads from there to a sub-agent, as (kind, name) pairs, outermost first. The agents on the path are asked
    later.
    """

    request: HTTPConnection
    agent: type
    name: str
    path: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Reject:
    """A refusal. The client gets the reason, with an HTTP status from 400 to 599."""

    reason: str = NOT_ALLOWED
    status: int = 403

    def __post_init__(self) -> None:
        reason, status = cast(object, self.reason), cast(object, self.status)
        if not isinstance(reason, str):
            raise UsageError(f"unable to reject with the reason {reprlib.repr(reason)}; give a text")
        if not isinstance(status, int) or not 400 <= status <= 599:
            raise UsageError(f"unable to reject with the status {reprlib.repr(status)}; give one from 400 to 599")


Known = Principal | Reject | None
Authenticate = Callable[[HTTPConnection], Awaitable[Known] | Known]
Verdict = Awaitable[bool | Reject] | bool | Reject
AuthorizeAction = (
    Callable[[Principal, Action, str, str], Verdict] | Callable[[Principal, Action, str, str, Approval | None], Verdict]
)
AuthorizeConnecting = Callable[[Connecting], Awaitable[Known] | Known]
Authorize = AuthorizeAction | AuthorizeConnecting
Hear = Callable[[AccessDecision], Awaitable[None] | None]
"""Records a decision. If it returns an awaitable, the client waits for it, and is refused if it fails."""

NO_DETAILS: Final[Mapping[str, object]] = {}

SHOWN_PATH: Final = 300
"""Characters of the path of a client that was not identified. Its query is never recorded."""


@dataclass(frozen=True, slots=True)
class Permit:
    """What one client may do with one agent, as its principal."""

    principal: Principal = LOCAL
    kind: str = ""
    name: str = ""
    authorize: AuthorizeAction | None = None
    """Called for each action. None: every action is allowed, except changes by a read-only principal."""
    clock: Clock = field(default_factory=SystemClock)

    takes_approval: bool = False
    """Whether `authorize` has a fifth parameter: it gets the approval that is answered, and decides alone."""

    hear: Hear | None = None
    """Records the decisions of `refuse`."""

    async def refuse(
        self, action: Action, approval: Approval | None = None, what: Mapping[str, object] = NO_DETAILS
    ) -> Reject | None:
        """Decide, and record the decision, with the ids in `what`: return why the client may not do this now, or None.

        `approval` is the one that is answered.
        """
        return await self.record(action, await self.decide(action, approval), what)

    async def record(
        self, action: str, refused: Reject | None, what: Mapping[str, object] = NO_DETAILS
    ) -> Reject | None:
        """Record a decision, and return it; a refusal if it must be recorded and cannot."""
        if self.hear is None:
            return refused
        about = self.kind, self.name
        return await _recorded(self.hear, self.clock, self.principal.identity, action, about, refused, what)

    async def decide(self, action: Action, approval: Approval | None = None) -> Reject | None:
        """Return why the client may not do this now; None if it may. Nothing is recorded."""
        if self.is_expired:
            return Reject(EXPIRED, 401)
        if self.principal.read_only and action in CHANGES:
            return Reject(f"unable to {action}; you may only watch this agent")
        if approval is not None and not self.takes_approval and not may_approve(self.principal, approval.approvers):
            return Reject(f"unable to answer; only {', '.join(approval.approvers)} may approve this call")
        if self.authorize is None:
            return None
        given: object
        try:
            if self.takes_approval:
                given = cast(Any, self.authorize)(self.principal, action, self.kind, self.name, approval)
            else:
                given = cast(Any, self.authorize)(self.principal, action, self.kind, self.name)
            verdict = await given if inspect.isawaitable(given) else given
        except Exception:
            log.exception("`authorize` failed for %s of %s %s; it was refused", action, self.kind, _short(self.name))
            return Reject(UNCHECKED, 500)
        if verdict is True:
            return None
        if verdict is False:
            return Reject(f"unable to {action}; you are not allowed to do that here")
        if isinstance(verdict, Reject):
            return verdict
        log.error(
            "`authorize` returned %s for %s of %s %s; it was refused. Return True, False or a Reject.",
            *(describe_verdict(verdict), action, self.kind, _short(self.name)),
        )
        return Reject(UNCHECKED, 500)

    @property
    def is_expired(self) -> bool:
        expires = self.principal.expires
        return expires is not None and expires <= self.clock.now()


class Permissions:
    """The hooks of one app. Without hooks, a client on this machine is the principal `local` and may do everything.

    Raises:
        UsageError: the two hooks do not fit together.
    """

    def __init__(self, authenticate: Authenticate | None = None, authorize: Authorize | None = None) -> None:
        _check(authenticate, authorize)
        self._authenticate, self._authorize = authenticate, authorize
        self.clock: Clock = SystemClock()
        self.hear: Hear | None = None
        """Records decisions; None if no observer wants them."""

    async def record_stranger(self, connection: HTTPConnection, refused: Reject) -> Reject:
        """Record that a client was refused before it was identified, or because it could not be; return the refusal."""
        if self.hear is not None:
            path, root = str(connection.scope["path"]), str(connection.scope.get("root_path", ""))
            if path.removeprefix(root).startswith(f"{SHARED}/"):
                path = f"{SHARED}/…"  # what follows opens the link
            what = {"path": path[:SHOWN_PATH]}
            await _recorded(self.hear, self.clock, None, "authenticate", ("", ""), refused, what)
        return refused

    async def record_bearer(
        self, action: Action, about: tuple[str, str], refused: Reject | None, what: Mapping[str, object]
    ) -> Reject | None:
        """Record a decision about a client that only has a link; return it, or a refusal if it cannot be recorded.

        `about` is kind and name of the agent; both are empty if the link leads to none.
        """
        if self.hear is None:
            return refused
        return await _recorded(self.hear, self.clock, None, action, about, refused, what)

    @property
    def are_given(self) -> bool:
        """True if a hook decides which clients are admitted."""
        return self._authorize is not None

    async def authenticate(self, connection: HTTPConnection) -> Principal | Reject | None:
        """Return a client's principal, before its URL is read; None with the shorthand, which identifies it later."""
        if self._authorize is None:
            return LOCAL
        if self._authenticate is None:
            return None
        verdict = await _ask("authenticate", self._authenticate, connection, "a client")
        return self._checked(verdict, "authenticate", "a client")

    async def permit(self, connecting: Connecting, kind: str, principal: Principal | None) -> Permit | Reject:
        """Return the permit of a client for one agent. `principal` is the result of `authenticate`."""
        if principal is not None:
            by_action = cast(AuthorizeAction, self._authorize) if self._authenticate is not None else None
            takes_approval = by_action is not None and _takes(by_action, 5)
            return Permit(principal, kind, connecting.name, by_action, self.clock, takes_approval, self.hear)
        about = f"{connecting.agent.__name__} {_short(connecting.name)}"
        verdict = await _ask("authorize", cast(Any, self._authorize), connecting, about)
        found = self._checked(verdict, "authorize", about)
        if isinstance(found, Reject):
            return await self.record_stranger(connecting.request, found)
        return Permit(found, kind, connecting.name, None, self.clock, hear=self.hear)

    def _checked(self, verdict: object, hook: str, about: str) -> Principal | Reject:
        """Return the meaning of a hook's result: only a Principal that has not expired is admitted."""
        if verdict is None:
            return Reject(UNKNOWN_CLIENT, 401)
        if isinstance(verdict, Principal):
            return Reject(EXPIRED, 401) if Permit(verdict, clock=self.clock).is_expired else verdict
        if isinstance(verdict, Reject):
            return verdict
        log.error(
            "`%s` returned %s for %s; the client was refused. Return a Principal, a Reject or None.",
            *(hook, describe_verdict(verdict), about),
        )
        return Reject(UNCHECKED, 500)


async def _recorded(
    hear: Hear,
    clock: Clock,
    principal: Identity | None,
    action: str,
    about: tuple[str, str],
    refused: Reject | None,
    what: Mapping[str, object],
) -> Reject | None:
    outcome: Literal["allowed", "refused"] = "refused" if refused is not None else "allowed"
    known = {name: value for name, value in what.items() if value is not None}
    why = refused.reason if refused is not None else None
    try:
        waiting = hear(AccessDecision(clock.now(), principal, action, *about, outcome, why, known))
        if waiting is not None:
            await waiting
    except Exception as exc:  # noqa: BLE001 - an observer of the user may raise anything
        log.error("unable to record %s of %s; it was refused (%s)", action, _short("/".join(about)), exc)
        return refused or Reject(UNRECORDED, 503)
    return refused


async def _ask(hook: str, ask: Callable[[Any], Any], given: object, about: str) -> object:
    try:
        verdict = ask(given)
        return await verdict if inspect.isawaitable(verdict) else verdict
    except Exception:
        log.exception("`%s` failed for %s; the client was refused", hook, about)
        return Reject(UNCHECKED, 500)


def _check(authenticate: object, authorize: object) -> None:
    for name, hook in (("authenticate", authenticate), ("authorize", authorize)):
        if hook is not None and not callable(hook):
            raise UsageError(f"unable to use {reprlib.repr(hook)} as `{name}`; give a function")
    if authenticate is not None and authorize is None:
        raise UsageError(
            "unable to serve with `authenticate` alone; it says who a client is, and not what it may do. Give "
            "`authorize(principal, action, kind, name)` too, for instance one that returns `name == principal.id`."
        )
    if authenticate is None and _takes(authorize, 4) and not _takes(authorize, 1):
        raise UsageError(
            "unable to use `authorize(principal, action, kind, name)` alone; give `authenticate(request)` too, which "
            "says who a client is"
        )
    if authenticate is not None and not _takes(authorize, 4) and not _takes(authorize, 5):
        raise UsageError(
            "unable to use this `authorize` beside `authenticate`; define it as "
            "`authorize(principal, action, kind, name)`, with or without a fifth parameter `approval`"
        )


def _takes(hook: object, count: int) -> bool:
    try:
        inspect.signature(cast(Callable[..., Any], hook)).bind(*range(count))
    except TypeError:
        return False
    except ValueError:
        return True  # a builtin without a signature; a wrong one fails at its first call
    return True


def describe_verdict(verdict: object) -> str:
    """Return the result of a hook as text for the log: the beginning of its value, and its type."""
    if inspect.iscoroutine(verdict):
        verdict.close()  # it will not be awaited; closing it avoids a warning
    return f"{reprlib.repr(verdict)} ({type(verdict).__name__})"


def _short(name: str) -> str:
    return reprlib.repr(name)
