"""The HTTP resources of an agent: which there are, who may use them, and how an error becomes a response."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from ..agents import Agent
from ..agents.execution_context import set_current_agent
from ..errors import (
    AgentStopped,
    AttachmentsUnavailable,
    BadInput,
    LogError,
    MailboxFull,
    MessageRefused,
    Rejected,
    TooFast,
    TooManyQueued,
    is_public,
    public_text,
)
from ..ids import Seq, id_problem
from ..principals import acting_as
from ..wire.sse import PLAIN_STREAM_HEADERS
from .access_policy import NOTHING_TO_WATCH, can_be_watched
from .attachment_resources import ONE, attachment_of, get_attachment, post_attachment
from .connection_hooks import agent_of
from .event_streams import follow_log
from .http_caller import Caller, seated
from .list_json import principals_json
from .permissions import NO_DETAILS, Action, Permit, Reject, describe_verdict
from .presence_stream import follow_presence
from .refusals import BUSY, FAILED, NO_ATTACHMENTS, refusal_response
from .service import Service
from .streamed_response import StreamedResponse
from .transcript_resource import get_messages
from .turn_resources import get_stream, post_chat, post_stop

__all__ = ["RESOURCES", "SOCKET", "answer_http", "entered_as"]

log = logging.getLogger("everyword.server")

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that a read-only client may use: HTTP defines that they change nothing."""

SDK_PATH: Final = re.compile(r"chat/.+/(stream|stop)")
"""Paths of the AI SDK's transport, which puts its own id of the chat below the path that it posts to."""


Answer = Callable[[Service, Caller], Awaitable[ASGIApp]]


async def answer_http(service: Service, caller: Caller, resource: str) -> ASGIApp:
    """Return the response to an admitted request. An error becomes a status and one sentence.

    Answers:
        400: The path, the query, a header, an id or the body is not valid.
        401: The client is not known, or its principal has expired (`authenticate`, `authorize`).
        403: `authorize` refuses the action; or there is no `authorize` and the request does not come from this machine;
            or it comes from a page of a site that is not in `origins`; or a read-only client asks for a change.
        404: The kind of agent or the resource does not exist, or a read-only client asks for a missing agent.
        405: The resource does not have this method; `allow` lists the methods that it has.
        409: The agent refuses the request.
        429: Too many requests, bytes, turns or open streams; `retry-after` says when to try again.
        500: The agent's own code, `authenticate` or `authorize` failed.
        503: The server is stopping, or cannot store anything; nothing was written. `retry-after` says when to retry.
    """
    asked = SDK_PATH.fullmatch(resource)
    chat = resource[len("chat/") : asked.start(1) - 1] if asked is not None else ""
    if (problem := id_problem(chat, "the chat's id")) is not None:
        return refusal_response(400, f"unable to find the chat; {problem}")
    resource = _known_resource(resource)
    method, answers = caller.request.method, RESOURCES.get(resource)
    if answers is not None and method not in answers:
        allowed = ", ".join(answers)
        return refusal_response(405, f"unable to {method} {resource}; use {allowed}", allow=allowed)
    try:
        if caller.principal.read_only and (refused := await _refuse_change(service, caller, resource)) is not None:
            return refused
        with acting_as(caller.principal.identity):
            answered = await (answers[method] if answers is not None else _own_answer)(service, caller)
        if answered is not None:
            return answered
        known = ", ".join(sorted(RESOURCES))
        return refusal_response(404, f"unable to find {resource!r}; an agent has {known}")
    except (BadInput, MessageRefused) as exc:
        status: int = getattr(exc, "status", 400)  # an `AttachmentRefused` has one
        return refusal_response(status, _told_text(exc, "unable to use the request; it does not fit"))
    except TooManyQueued as exc:
        return refusal_response(429, public_text(exc, BUSY), retry_after="5")
    except (AgentStopped, MailboxFull, LogError) as exc:
        why = NO_ATTACHMENTS if isinstance(exc, AttachmentsUnavailable) else BUSY
        return refusal_response(503, _told_text(exc, why, is_stopping=service.directory.is_stopping), retry_after="1")
    except Rejected as exc:
        return refusal_response(409, public_text(exc, BUSY))


def _known_resource(resource: str) -> str:
    """Return the name that a resource has in RESOURCES: `chat/stream` for `chat/{id}/stream`."""
    if attachment_of(resource) is not None:
        return ONE
    asked = SDK_PATH.fullmatch(resource)
    return f"chat/{asked[1]}" if asked is not None else resource


async def entered_as(
    permit: Permit, resource: str, what: Mapping[str, object] = NO_DETAILS, *, is_relayed: bool = False
) -> Action | Reject:
    """Return the action for which a request or a socket is admitted, or why it is refused; records the decision.

    For a relayed client, only a refusal is recorded: the node that the client is connected to has admitted it.
    """
    first: tuple[Action, Reject] | None = None
    for action in ACTIONS.get(_known_resource(resource), (OWN,)):
        refused = await permit.decide(action)
        if refused is None:
            if not is_relayed:
                refused = await permit.record(action, None, {"resource": resource, **what})
            return refused or action
        first = first or (action, refused)
    assert first is not None
    return await permit.record(*first, {"resource": resource, **what}) or first[1]


async def _refuse_change(service: Service, caller: Caller, resource: str) -> ASGIApp | None:
    """Refuse a request of a read-only client that could change something, or would create an agent by loading it."""
    method = caller.request.method
    if method not in SAFE_METHODS:
        return refusal_response(403, f"unable to {method} {resource}; you may watch this agent and not change it")
    if resource in LOADS_NOTHING_NEW or await can_be_watched(service.directory, caller.agent):
        return None
    return refusal_response(NOTHING_TO_WATCH.status, NOTHING_TO_WATCH.reason)


def _told_text(exc: Exception, otherwise: str, *, is_stopping: bool = False) -> str:
    """Return the text of an error that the client may read; log an error that is not public."""
    if not is_public(exc):  # the text of a store names files and disks: only the operator may read it
        log.log(logging.INFO if is_stopping else logging.ERROR, "%s", exc)  # errors during a shutdown are expected
    return public_text(exc, otherwise)


# -- the log itself ----------------------------------------------------------------------------------------------------


async def get_events(service: Service, caller: Caller) -> ASGIApp:
    """Stream the committed events of the agent's log, then new ones. Fields that are not for clients are left out.

    Query:
        after: The seq of the last event that the client has, for clients that cannot set a header.
    Headers:
        Last-Event-ID: The seq of the last event that the client has. Without a cursor, the stream begins with a
            `snapshot` of the agent.
    Answers:
        200: `text/event-stream`: each event of the log as JSON, with its seq as id.
        429: Too many open streams (`Limits.sockets_per_agent`, `Limits.sockets_per_principal`).
    """
    after = Seq(caller.after) if caller.after is not None else None
    with seated(service, caller) as seat:
        async with service.directory.attach(caller.agent):
            pass  # if loading fails, the response can still have an error status
        pieces = follow_log(service.directory, service.slices, caller.agent, after)
        admit = partial(service.admit, caller.agent, caller.permit)
        return StreamedResponse(pieces, PLAIN_STREAM_HEADERS, seat.pop_all(), admit)


# -- presence ---------------------------------------------------------------------------------------------------------


async def get_presence(service: Service, caller: Caller) -> ASGIApp:
    """Return the principals that are connected to the agent; live with `Accept: text/event-stream`.

    Connected is a principal with an open socket or stream. A live request is such a stream, too: a page without a
    socket is present while it watches.

    Answers:
        200: `{"principals": [{"id": text, "name": text or null}]}`, in the order in which they came. As events: the
            list, again after each change.
        429: Too many open streams (`Limits.sockets_per_agent`, `Limits.sockets_per_principal`).
    """
    presence = service.directory.presence
    if "text/event-stream" not in caller.request.headers.get("accept", ""):
        shown = principals_json(presence.principals(caller.agent))
        return JSONResponse(shown, headers={"cache-control": "no-store"})
    with seated(service, caller) as seat:
        async with service.directory.attach(caller.agent):
            pass  # if loading fails, the response can still have an error status
        pieces = follow_presence(service.directory, caller.agent)
        admit = partial(service.admit, caller.agent, caller.permit)
        return StreamedResponse(pieces, PLAIN_STREAM_HEADERS, seat.pop_all(), admit)


RESOURCES: Final[Mapping[str, Mapping[str, Answer]]] = {
    "get-messages": {"GET": get_messages, "HEAD": get_messages},
    "chat": {"POST": post_chat},
    "chat/stream": {"GET": get_stream},
    "chat/stop": {"POST": post_stop},
    "events": {"GET": get_events},
    "presence": {"GET": get_presence},
    "attachments": {"POST": post_attachment},
    ONE: {"GET": get_attachment, "HEAD": get_attachment},
}

OWN: Final[Action] = "request"
"""The action of a request for a resource that is not in RESOURCES."""

SOCKET: Final = "socket:"
"""The key of a WebSocket in ACTIONS."""

ACTIONS: Final[Mapping[str, Sequence[Action]]] = {
    SOCKET: ("connect",),
    "get-messages": ("read",),
    "chat": ("ask", "answer"),  # pages post both here; a client that may do only one of them is admitted for that one
    "chat/stream": ("read",),
    "chat/stop": ("stop",),
    "events": ("read",),
    "presence": ("read",),
    "attachments": ("ask",),
    ONE: ("read",),
}
"""The actions of each resource. A request is admitted if the client may do one of them."""

LOADS_NOTHING_NEW: Final = frozenset({"get-messages", "chat/stream", ONE})
"""Resources that respond for an agent that does not exist, and do not create it."""


async def _own_answer(service: Service, caller: Caller) -> ASGIApp | None:
    """Call the agent's `on_request` for a path that everyword does not serve itself.

    Answers:
        404: The agent has no `on_request`, or it returned None.
        500: `on_request` raised, or returned something other than a response.
        others: The response of `on_request`, sent after the states that it set are committed.
    """
    async with service.directory.attach(caller.agent) as loaded:
        own = agent_of(loaded)
        if own is None or type(own).on_request is Agent.on_request:
            return None
        set_current_agent(own)
        try:
            answer: object = await own.on_request(caller.request)
        except (TooFast, AgentStopped, MailboxFull):
            raise  # not a fault of the agent's code: the client may send the request again
        except Exception as exc:
            log.exception("on_request of %r raised", own)
            return refusal_response(500, public_text(exc, FAILED))
        await loaded.pending_states.committed()  # the response may contain a state that is not committed yet
    if answer is None or callable(answer):
        return cast("ASGIApp | None", answer)
    log.error("on_request of %r returned %s; return a Starlette response, or None", own, describe_verdict(answer))
    return refusal_response(500, FAILED)
