"""The HTTP resources of an agent: the transcript, turns as event streams, stopping turns, and the log.

A response that is cut off does not affect its turn: turns are commands in a log, and every stream can be resumed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from ..agents import Agent, AIChatAgent
from ..agents.execution_context import set_current_agent
from ..core.commands import CancelTurns, Submit
from ..core.conversation import conversation, has_gap, with_reserved
from ..core.state import State
from ..core.tree import Node, Tree
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
from ..events import TurnAccepted
from ..ids import AgentId, RequestId, Seq, cut_id, id_problem
from ..principals import Principal, acting_as
from ..runtime.directory import Directory, LoadedAgent
from ..runtime.random_ids import random_message_id, random_request_id
from ..wire.sse import PLAIN_STREAM_HEADERS, UI_STREAM_HEADERS
from .access_policy import NOTHING_TO_WATCH, can_be_watched
from .asked_approvals import check_answer
from .attachment_options import client_prefix
from .attachment_resources import ONE, attachment_of, get_attachment, post_attachment
from .client_files import storing_files
from .connection_hooks import agent_of
from .event_streams import Pieces, ended_turn_frames, find_open_turn, follow_log, follow_turn, open_turn_frames, sent
from .list_json import principals_json
from .permissions import NO_DETAILS, Action, Permit, Reject, describe_verdict
from .posted_tool_answers import Answering, Standing, find_standing, find_subject, standing_frames, take_answers
from .presence_stream import follow_presence
from .refusals import BUSY, FAILED, NO_ATTACHMENTS, refusal_response
from .request_bodies import PostedQuestion, TooLarge, read_json, read_number, read_question
from .service import Service
from .streamed_response import StreamedResponse

__all__ = ["RESOURCES", "SOCKET", "Caller", "answer_http", "entered_as"]

log = logging.getLogger("everyword.server")

JsonObject = dict[str, Any]

AT_ONCE: Final = 256 * 1024
"""A transcript of at most this many bytes is sent whole, a longer one in pieces, as fast as the client reads."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that a read-only client may use: HTTP defines that they change nothing."""

SDK_PATH: Final = re.compile(r"chat/.+/(stream|stop)")
"""Paths of the AI SDK's transport, which puts its own id of the chat below the path that it posts to."""

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Caller:
    """One admitted request: the agent that it is for, and what its client may do there."""

    request: Request
    agent: AgentId
    permit: Permit
    entered_as: Action
    """The action for which the request was admitted."""
    resource: str = ""
    """What the request is for, below its agent."""

    @property
    def principal(self) -> Principal:
        return self.permit.principal

    async def refuse(self, action: Action, what: Mapping[str, object]) -> Reject | None:
        """Return why the client may not do this; None if it may."""
        return await self.permit.refuse(action, what=what) if action != self.entered_as else None

    @property
    def after(self) -> int | None:
        """The cursor that the client sent; None if it sent none, or one that is not a number."""
        said = self.request.headers.get("last-event-id") or self.request.query_params.get("after") or ""
        return read_number(said)


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


# -- the transcript ----------------------------------------------------------------------------------------------


async def get_messages(service: Service, caller: Caller) -> ASGIApp:
    """Stream the conversation as a JSON array of UIMessages, without loading an idle agent.

    `limit` and `before` together give pages, beginning with the newest messages.

    Query:
        limit: The number of messages; the newest ones are returned.
        before: Return only messages before the message with this id.
        reserve: With `1`, an answer that has not begun is an empty message, if another message follows it.
    Answers:
        200: `application/json`: the messages, oldest first; an empty array for an agent that does not exist.
        400: `before` is not the id of a message, or `limit` is too large.
    """
    headers = {"content-type": "application/json", "cache-control": "no-cache"}
    async with service.slices.build_slots:
        asked = caller.request.query_params
        bodies = _page(await _shown(service.directory, caller.agent, reserve=asked.get("reserve") == "1"), asked)
        if sum(map(len, bodies)) <= AT_ONCE:
            return Response(b"[%b]" % b",".join(bodies), headers=headers)
        slices = service.slices.slice_stream(_json_array(bodies))
    return StreamedResponse(sent(slices), headers)


async def _shown(directory: Directory, agent: AgentId, *, reserve: bool) -> list[tuple[str, bytes]]:
    """Return id and body of each message of the conversation, oldest first."""

    def look(state: State) -> list[tuple[str, bytes]]:
        shown = conversation(state)
        return [
            (state.tree.nodes[node].id, body) for node, body, _ in (with_reserved(state, shown) if reserve else shown)
        ]

    if (loaded := directory.peek(agent)) is not None:
        with suppress(AgentStopped):  # it was unloaded meanwhile, so the store has everything
            return await loaded.actor.inspect(look)
    row, messages = await directory.store.conversation(agent)
    if row is None:
        return []
    nodes = {m.node: Node(m.parent, m.id, m.role, m.at, m.body, m.draft) for m in messages}
    state = State(tree=Tree(nodes, row.leaf))
    if not has_gap(state):
        return look(state)
    async with directory.attach(agent) as loading:  # an answer may be running in it
        return await loading.actor.inspect(look)


def _page(shown: list[tuple[str, bytes]], asked: Mapping[str, str]) -> list[bytes]:
    before, limit = asked.get("before"), asked.get("limit", "")
    if before is not None:
        places = [place for place, (name, _) in enumerate(shown) if name == before]
        if not places:
            raise BadInput(f"unable to page; there is no message {cut_id(before)!r} to go back from")
        shown = shown[: places[0]]
    if limit.isascii() and limit.isdigit():
        most = read_number(limit)
        if most is None:
            raise BadInput("unable to page; `limit` is too large. Leave it out to get all messages.")
        shown = shown[-most:] if most else []
    return [body for _, body in shown]


def _json_array(bodies: list[bytes]) -> Iterator[bytes]:
    yield b"["
    for place, body in enumerate(bodies):
        yield b",%b" % body if place else body
    yield b"]"


# -- turns -----------------------------------------------------------------------------------------------------------


async def post_chat(service: Service, caller: Caller) -> ASGIApp:
    """Accept a turn and stream it.

    Headers:
        Idempotency-Key: The request id of the turn. If a turn has this id already, that turn is streamed.
        Prefer: With `respond-async`, the response does not wait for the turn.
    Body:
        messages: The conversation as the client has it, or only the new messages, as UIMessages. Answers to tool calls
            in the last message are accepted, too.
        trigger: `submit-message` or `regenerate-message`.
        clientTools: Tools that the client runs, each with `name`, `description` and `parameters`.
        others: All other fields are passed to the agent as `turn.body`.
    Answers:
        200: `text/event-stream`: the AI SDK's UI message stream (`x-vercel-ai-ui-message-stream: v1`). The id of an
            event is the chunk's index. `x-everyword-request` is the request id.
        202: With `respond-async`, `{"request": id}`.
        204: The client already has all chunks of the turn with this key.
        404: The agent is not a chat agent.
        413: The body is larger than `Limits.frame`, or a file in a message is too large, as in an upload.
        415, 422: A file in a message is refused, as in an upload.
        429: Too many turns in a minute, or too many are open (`Limits.requests_per_minute`, `Limits.queued_turns`).
    """
    body = await read_json(caller.request, service.limits.frame, service.body_budget)
    if isinstance(body, TooLarge):
        megabytes = service.limits.frame / 1024 / 1024
        return refusal_response(
            413, f"unable to take the body; it is larger than {megabytes:g} MiB, the limit of this server"
        )
    question = read_question(body)
    service.readers.check_principal(caller.principal.id)
    key = caller.request.headers.get("idempotency-key")
    request = _request_id(key) if key else random_request_id()
    directory, agent = service.directory, caller.agent
    known = await directory.store.find_turn(agent, request) if key else None
    if known is None:
        wait = service.turn_rate.wait_needed(caller.principal.id, directory.clock.now())
        if wait:
            return refusal_response(
                429, "unable to take the question; too many came in a minute", retry_after=f"{wait / 1000:.0f}"
            )
    async with directory.attach(agent) as loaded:
        own = agent_of(loaded)
        if own is not None and not isinstance(own, AIChatAgent):
            return refusal_response(404, "unable to chat; this agent does not. Call its methods instead")
        standing = await _standing(loaded, caller, question, request) if known is None else None
        if isinstance(standing, Reject):
            return refusal_response(standing.status, standing.reason)
        if standing is not None:
            return _told(service, caller, standing)
        command = Submit(
            request,
            random_message_id(),
            None,
            trigger=question.trigger,
            policy=loaded.rules.policy,
            body=question.body,
            client_tools=question.client_tools,
            known=known is not None,
            principal=caller.principal.identity,
        )
        if (refused := await caller.refuse("ask", {"request": request})) is not None:
            return refusal_response(refused.status, refused.reason)
        cursor = loaded.actor.tail.head
        async with _storing(service, caller, loaded, question.messages) as messages:
            events = await loaded.actor.ask(msgspec.structs.replace(command, messages=messages))
        accepted = next((event for event in events if isinstance(event, TurnAccepted)), None)
    if _responds_async(caller.request):
        return _accepted(request)
    if accepted is None:
        return await _stream(service, caller, request)
    pieces = follow_turn(directory, agent, accepted.turn, cursor)
    return _ui_stream(service, caller, request, pieces, service.readers.hold(agent, caller.principal.id))


def _storing(
    service: Service, caller: Caller, loaded: LoadedAgent, messages: Sequence[JsonObject]
) -> AbstractAsyncContextManager[Sequence[JsonObject]]:
    """Move large `data:` URLs out of posted messages."""
    attachments = service.directory.attachments
    prefix = client_prefix(caller.request.scope, attachments, service.base_path) if attachments else None
    return storing_files(attachments, loaded, messages, prefix=prefix, sender=caller.principal.identity)


async def _standing(
    loaded: LoadedAgent, caller: Caller, question: PostedQuestion, request: RequestId
) -> Standing | Reject | None:
    """Commit the tool answers in the posted messages; return the turn that continues, or continued, because of them."""
    messages = question.messages
    if not messages or question.trigger == "regenerate-message":
        return None
    subject = await find_subject(loaded, messages, question.message_id)
    answering = Answering(
        request,
        goes_on=subject is not None,
        by=caller.principal.id,
        principal=caller.principal.identity,
        client_tools=question.client_tools,
    )
    has_answers = await take_answers(loaded, messages, answering, partial(check_answer, caller.permit, loaded))
    if subject is None or isinstance(has_answers, Reject):
        return has_answers if isinstance(has_answers, Reject) else None
    is_last = subject is messages[-1]
    return await find_standing(loaded, subject, request, is_last=is_last, has_answers=has_answers)


def _told(service: Service, caller: Caller, standing: Standing) -> ASGIApp:
    if _responds_async(caller.request):
        return _accepted(standing.request)
    pieces = standing_frames(service.directory, service.slices, caller.agent, standing)
    seat = service.readers.hold(caller.agent, caller.principal.id)
    return _ui_stream(service, caller, standing.request, pieces, seat)


def _accepted(request: RequestId) -> Response:
    return JSONResponse({"request": request}, 202, {"x-everyword-request": _header_safe(request)})


def _responds_async(request: Request) -> bool:
    wishes = request.headers.get("prefer", "").lower().split(",")
    return any(wish.partition(";")[0].strip() == "respond-async" for wish in wishes)


async def get_stream(service: Service, caller: Caller) -> ASGIApp:
    """Stream the running turn and the waiting ones, or the turn of a request, from the client's cursor.

    The AI SDK's transport asks for `chat/{id}/stream`, with its own id of the chat, and gets the same response.

    Query:
        request: The request id of the turn. Without it: the running turn, then the turns whose questions wait.
        after: The index of the last chunk that the client has, for clients that cannot set a header.
    Headers:
        Last-Event-ID: The index of the last chunk that the client has.
    Answers:
        200: `text/event-stream`, as for `POST chat`, from the next chunk on.
        204: There is no such turn, or the client has all of it.
        429: Too many open streams (`Limits.sockets_per_agent`, `Limits.sockets_per_principal`).
    """
    named = caller.request.query_params.get("request")
    return await _stream(service, caller, _request_id(named) if named else None)


async def _stream(service: Service, caller: Caller, request: RequestId | None) -> ASGIApp:
    directory, agent, after = service.directory, caller.agent, caller.after
    if not await directory.store.has(agent):
        return Response(status_code=204)  # a read does not create an agent
    with _seated(service, caller) as seat:
        async with directory.attach(agent) as loaded, service.slices.build_slots:
            opened = await find_open_turn(loaded, service.slices, request)
        if opened is not None:
            goes_on = request is None
            frames = open_turn_frames(directory, service.slices, agent, opened, after, goes_on=goes_on)
            return _ui_stream(service, caller, opened.request, frames, seat.pop_all())
        row = await directory.store.find_turn(agent, request) if request is not None else None
        if row is None or row.is_open or (after is not None and after >= row.chunks > 0):
            return Response(status_code=204)
        pieces = ended_turn_frames(directory.store, service.slices, agent, row, after)
        return _ui_stream(service, caller, row.request, pieces, seat.pop_all())


def _seated(service: Service, caller: Caller) -> ExitStack:
    """Count the client as a reader before anything is awaited, so that concurrent requests cannot exceed the limit.

    Raises:
        TooManyQueued: the agent or the principal has as many readers as `Limits` allow.
    """
    service.readers.check(caller.agent, caller.principal.id)
    seat = ExitStack()
    seat.enter_context(service.readers.hold(caller.agent, caller.principal.id))
    return seat


def _ui_stream(
    service: Service, caller: Caller, request: RequestId, pieces: Pieces, seat: AbstractContextManager[Any]
) -> ASGIApp:
    headers = {**UI_STREAM_HEADERS, "x-everyword-request": _header_safe(request)}
    # A stream that began before its principal expired runs to its end: a page shows an error if an answer is cut off.
    return StreamedResponse(pieces, headers, seat, partial(service.admit, caller.agent, caller.permit, outlives=True))


def _request_id(said: str) -> RequestId:
    if (problem := id_problem(said, "its id")) is not None:
        raise BadInput(f"unable to find the request; {problem}")
    return RequestId(said)


def _header_safe(request: RequestId) -> str:
    """Return a request id as a header value. Clients choose the id, and a line break would begin another header."""
    ascii_only = request.encode("ascii", "backslashreplace").decode()
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", ascii_only)


async def post_stop(service: Service, caller: Caller) -> ASGIApp:
    """Cancel the running turn, or the turn of a request. What it has written so far is kept.

    Body:
        requestId: The request id of a running or waiting turn. Without it, the running turn.
    Answers:
        200: `{"stopped": [ids]}`: the request ids of the turns that were told to stop; an empty list if there was none.
    """
    body = await read_json(caller.request, service.limits.frame, service.body_budget)
    named = None if isinstance(body, TooLarge) else body.get("requestId")
    if named is not None and not isinstance(named, str):
        raise BadInput('unable to stop; "requestId" must be a string')
    async with service.directory.attach(caller.agent) as loaded:
        request = _request_id(named) if named is not None else await _running(loaded)
        events = []
        if request is not None:
            events = await loaded.actor.insist(CancelTurns(request, by=caller.principal.id))
    return JSONResponse({"stopped": [request] if events else []})


async def _running(loaded: LoadedAgent) -> RequestId | None:
    def look(state: State) -> RequestId | None:
        turn = state.current or next(state.chat_turns(), None)
        return turn.request if turn is not None else None

    return await loaded.actor.inspect(look)


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
    with _seated(service, caller) as seat:
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
    with _seated(service, caller) as seat:
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
