"""HTTP beside the socket: the transcript, turns as event streams, stopping them, and the log itself.

A response that is cut off changes nothing: turns are commands in a log, and every stream can be taken up again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

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
from ..wire.sse import UI_STREAM_HEADERS
from .access_policy import NOTHING_TO_WATCH, can_be_watched
from .connection_hooks import agent_of
from .event_streams import Pieces, ended_turn_frames, find_open_turn, follow_log, follow_turn, open_turn_frames, sent
from .permissions import Action, Permit, Reject, describe_verdict
from .posted_tool_answers import Answering, Standing, find_standing, find_subject, standing_frames, take_answers
from .refusals import BUSY, FAILED, refusal_response
from .request_bodies import PostedQuestion, TooLarge, read_json, read_number, read_question
from .service import Service
from .streamed_response import StreamedResponse

__all__ = ["RESOURCES", "SOCKET", "Caller", "answer_http", "entered_as"]

log = logging.getLogger("everyword.server")

AT_ONCE: Final = 256 * 1024
"""Bytes of a transcript that is sent whole; a longer one is sent in pieces, as its client takes them."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""What a read-only client may use: methods that change nothing, by their definition."""

SDK_PATH: Final = re.compile(r"chat/.+/(stream|stop)")
"""The AI SDK's transport asks below the path that it posts to, under its own id for the chat: `chat/{id}/stream`."""


_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Caller:
    """One admitted request: who asks what of which agent."""

    request: Request
    agent: AgentId
    permit: Permit
    entered_as: Action
    """For which action it was let in."""

    @property
    def principal(self) -> Principal:
        return self.permit.principal

    async def refuse(self, action: Action) -> Reject | None:
        """Return why it may not do this; None when it may."""
        return await self.permit.refuse(action) if action != self.entered_as else None

    @property
    def after(self) -> int | None:
        """The cursor that the reader brings; None when it has none, or one that is not ours."""
        said = self.request.headers.get("last-event-id") or self.request.query_params.get("after") or ""
        return read_number(said)


Answer = Callable[[Service, Caller], Awaitable[ASGIApp]]


async def answer_http(service: Service, caller: Caller, resource: str) -> ASGIApp:
    """Return the response to an admitted request; what goes wrong becomes a status and a sentence.

    Answers:
        400: The path, the query, a header, an id or the body cannot be used.
        401: The client is not known, or its time is over (`authenticate`, `authorize`).
        403: `authorize` refuses what is asked for, or the request does not come from this machine and there is no
            `authorize`, or it comes from a page of a site that is not in `origins`, or a read-only client asks for a
            change.
        404: There is no such kind of agent or no such resource, or a read-only client asks for an agent that does not
            exist.
        405: The resource has other methods; `allow` names them.
        409: The agent refuses.
        429: Too many requests, bytes, turns or open streams; `retry-after` says when to come back.
        500: The agent's own code, `authenticate` or `authorize` failed.
        503: The server stops, or cannot store anything right now. Nothing was written; `retry-after` says when to try
            again.
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
        return refusal_response(400, _told_text(exc, "unable to use the request; it does not fit"))
    except TooManyQueued as exc:
        return refusal_response(429, public_text(exc, BUSY), retry_after="5")
    except (AgentStopped, MailboxFull, LogError) as exc:
        return refusal_response(503, _told_text(exc, BUSY, is_stopping=service.directory.is_stopping), retry_after="1")
    except Rejected as exc:
        return refusal_response(409, public_text(exc, BUSY))


def _known_resource(resource: str) -> str:
    """Return a resource under the name that we have for it."""
    asked = SDK_PATH.fullmatch(resource)
    return f"chat/{asked[1]}" if asked is not None else resource


async def entered_as(permit: Permit, resource: str) -> Action | Reject:
    """Return the action for which a request or a socket is let in, or why it is not."""
    refused: Reject | None = None
    for action in ACTIONS.get(_known_resource(resource), (OWN,)):
        again = await permit.refuse(action)
        if again is None:
            return action
        refused = refused or again
    assert refused is not None
    return refused


async def _refuse_change(service: Service, caller: Caller, resource: str) -> ASGIApp | None:
    """Refuse a read-only request that could change something, or make an agent by looking for it."""
    method = caller.request.method
    if method not in SAFE_METHODS:
        return refusal_response(403, f"unable to {method} {resource}; you may watch this agent and not change it")
    if resource in LOADS_NOTHING_NEW or await can_be_watched(service.directory, caller.agent):
        return None
    return refusal_response(NOTHING_TO_WATCH.status, NOTHING_TO_WATCH.reason)


def _told_text(exc: Exception, otherwise: str, *, is_stopping: bool = False) -> str:
    """Return what the client may read of an error; write the rest to the log."""
    if not is_public(exc):  # what a store says of itself names files and disks, and is for its operator
        log.log(logging.INFO if is_stopping else logging.ERROR, "%s", exc)  # a deploy is no alarm
    return public_text(exc, otherwise)


# -- the transcript ----------------------------------------------------------------------------------------------


async def get_messages(service: Service, caller: Caller) -> ASGIApp:
    """Stream the conversation as a JSON array of UIMessages; an agent that is idle is not loaded for it.

    `limit` and `before` together give pages from the end.

    Query:
        limit: The newest so many messages only.
        before: Only messages that come before the one with this id.
        reserve: With `1`, there is an empty message for every answer that has not begun and has a question behind it.
    Answers:
        200: `application/json`: the messages, oldest first; an empty array for an agent that does not exist.
        400: There is no message of the id that `before` names, or `limit` is too large.
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
    """Return id and body of the messages of the conversation, oldest first."""

    def look(state: State) -> list[tuple[str, bytes]]:
        shown = conversation(state)
        return [
            (state.tree.nodes[node].id, body) for node, body, _ in (with_reserved(state, shown) if reserve else shown)
        ]

    if (loaded := directory.peek(agent)) is not None:
        with suppress(AgentStopped):  # unloaded meanwhile: then the store has it all
            return await loaded.actor.inspect(look)
    row, messages = await directory.store.conversation(agent)
    if row is None:
        return []
    nodes = {m.node: Node(m.parent, m.id, m.role, m.at, m.body, m.draft) for m in messages}
    state = State(tree=Tree(nodes, row.leaf))
    if not has_gap(state):
        return look(state)
    async with directory.attach(agent) as loading:  # an answer may be under way there
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
        Idempotency-Key: The request id of the turn. With one that is known, the turn that it stands for is streamed.
        Prefer: `respond-async` asks for the acceptance only.
    Body:
        messages: The conversation as the client has it, or only its new messages, as UIMessages. Answers to tool calls
            in its last message are taken, too.
        trigger: `submit-message` or `regenerate-message`.
        clientTools: Tools that the client answers, each with `name`, `description` and `parameters`.
        others: Any other field is the agent's: `turn.body`.
    Answers:
        200: `text/event-stream`: the AI SDK's UI message stream (`x-vercel-ai-ui-message-stream: v1`). The id of an
            event is the chunk's index. `x-everyword-request` is the request id.
        202: With `respond-async`, `{"request": id}`.
        204: The reader has everything of the turn that the key stands for.
        404: The agent does not chat.
        413: The body is larger than `Limits.frame`.
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
            question.messages,
            trigger=question.trigger,
            policy=loaded.rules.policy,
            body=question.body,
            client_tools=question.client_tools,
            known=known is not None,
            principal=caller.principal.identity,
        )
        if (refused := await caller.refuse("ask")) is not None:
            return refusal_response(refused.status, refused.reason)
        cursor = loaded.actor.tail.head
        events = await loaded.actor.ask(command)
        accepted = next((event for event in events if isinstance(event, TurnAccepted)), None)
    if _responds_async(caller.request):
        return _accepted(request)
    if accepted is None:
        return await _stream(service, caller, request)
    pieces = follow_turn(directory, agent, accepted.turn, cursor)
    return _ui_stream(service, caller, request, pieces, service.readers.hold(agent, caller.principal.id))


async def _standing(
    loaded: LoadedAgent, caller: Caller, question: PostedQuestion, request: RequestId
) -> Standing | Reject | None:
    """Take the answers that the posted messages give; return what goes on because of them, or went on before."""
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
    has_answers = await take_answers(loaded, messages, answering, lambda: caller.refuse("answer"))
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
    """Stream the running turn and those that wait, or another one, from wherever the reader is.

    Below the path that it posts to, the AI SDK's transport asks for `chat/{id}/stream` under its own id for the chat,
    and is answered the same.

    Query:
        request: The request id of the turn; without one, the running turn, and then those whose questions wait.
        after: The index of the last chunk that the reader has, where it cannot send a header.
    Headers:
        Last-Event-ID: The index of the last chunk that the reader has.
    Answers:
        200: `text/event-stream`, as for `POST chat`, from behind that chunk.
        204: There is no such turn, or nothing more of it.
        429: Too many open streams (`Limits.sockets_per_agent`, `Limits.sockets_per_principal`).
    """
    named = caller.request.query_params.get("request")
    return await _stream(service, caller, _request_id(named) if named else None)


async def _stream(service: Service, caller: Caller, request: RequestId | None) -> ASGIApp:
    directory, agent, after = service.directory, caller.agent, caller.after
    if not await directory.store.has(agent):
        return Response(status_code=204)  # asking about an agent does not make one
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
    """Take a seat, before anything is awaited, so that of many requests at once no more get one than there are.

    Raises:
        TooManyQueued: all seats are taken.
    """
    service.readers.check(caller.agent, caller.principal.id)
    seat = ExitStack()
    seat.enter_context(service.readers.hold(caller.agent, caller.principal.id))
    return seat


def _ui_stream(
    service: Service, caller: Caller, request: RequestId, pieces: Pieces, seat: AbstractContextManager[Any]
) -> ASGIApp:
    headers = {**UI_STREAM_HEADERS, "x-everyword-request": _header_safe(request)}
    # What was asked for in time is read to its end: a page that is cut off in an answer shows an error.
    return StreamedResponse(
        pieces, headers, seat, partial(service.open_connections.admit, caller.permit, outlives=True)
    )


def _request_id(said: str) -> RequestId:
    if (problem := id_problem(said, "its id")) is not None:
        raise BadInput(f"unable to find the request; {problem}")
    return RequestId(said)


def _header_safe(request: RequestId) -> str:
    """Return a request id as a header can hold it: clients choose it, and a line break would begin another header."""
    ascii_only = request.encode("ascii", "backslashreplace").decode()
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", ascii_only)


async def post_stop(service: Service, caller: Caller) -> ASGIApp:
    """Cancel the running turn, or another one; what was said is kept.

    Body:
        requestId: The request id of the turn, running or waiting; without one, the running turn.
    Answers:
        200: `{"stopped": [ids]}`: what was asked to stop; an empty list when nothing was.
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
    """Stream the committed events of the agent's log, and those to come. Fields that are not for clients are left out.

    Query:
        after: The seq of the last event that the reader has, where it cannot send a header.
    Headers:
        Last-Event-ID: The seq of the last event that the reader has. Without a cursor, the stream begins with where the
            agent stands.
    Answers:
        200: `text/event-stream`: one event of the log each, as JSON; its id is its seq.
        429: Too many open streams (`Limits.sockets_per_agent`, `Limits.sockets_per_principal`).
    """
    after = Seq(caller.after) if caller.after is not None else None
    headers = {name: value for name, value in UI_STREAM_HEADERS.items() if not name.startswith("x-vercel")}
    with _seated(service, caller) as seat:
        async with service.directory.attach(caller.agent):
            pass  # what cannot be loaded is refused with a status, while there is none yet
        pieces = follow_log(service.directory, service.slices, caller.agent, after)
        return StreamedResponse(pieces, headers, seat.pop_all(), partial(service.open_connections.admit, caller.permit))


RESOURCES: Final[Mapping[str, Mapping[str, Answer]]] = {
    "get-messages": {"GET": get_messages, "HEAD": get_messages},
    "chat": {"POST": post_chat},
    "chat/stream": {"GET": get_stream},
    "chat/stop": {"POST": post_stop},
    "events": {"GET": get_events},
}

OWN: Final[Action] = "request"
"""What a request does to a resource that we know nothing of."""

SOCKET: Final = "socket:"
"""Stands for a socket where resources are told apart."""

ACTIONS: Final[Mapping[str, Sequence[Action]]] = {
    SOCKET: ("connect",),
    "get-messages": ("read",),
    "chat": ("ask", "answer"),  # a page posts both: a client that may do one of them comes in, and does only that
    "chat/stream": ("read",),
    "chat/stop": ("stop",),
    "events": ("read",),
}
"""What a request does to the resources; any of these lets it in."""

LOADS_NOTHING_NEW: Final = frozenset({"get-messages", "chat/stream"})
"""Resources that answer for an agent that does not exist, and do not make it."""


async def _own_answer(service: Service, caller: Caller) -> ASGIApp | None:
    """Ask the agent's own code, `on_request`, for an answer to a path that we know nothing of.

    Answers:
        404: The agent has no answer to it.
        500: `on_request` raised, or returned something else than a response.
        others: What `on_request` returned, once the states that it set are committed.
    """
    async with service.directory.attach(caller.agent) as loaded:
        own = agent_of(loaded)
        if own is None or type(own).on_request is Agent.on_request:
            return None
        set_current_agent(own)
        try:
            answer: object = await own.on_request(caller.request)
        except (TooFast, AgentStopped, MailboxFull):
            raise  # no fault of the agent's code: the request may be sent again
        except Exception as exc:
            log.exception("on_request of %r raised", own)
            return refusal_response(500, public_text(exc, FAILED))
        await loaded.pending_states.committed()  # the answer may tell of states that are not yet
    if answer is None or callable(answer):
        return cast("ASGIApp | None", answer)
    log.error("on_request of %r returned %s; return a Starlette response, or None", own, describe_verdict(answer))
    return refusal_response(500, FAILED)
