"""The HTTP resources of an agent's turns: posting a question, event streams that can be resumed, stopping.

A response that is cut off does not affect its turn: turns are commands in a log, and every stream can be resumed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from ..agents import AIChatAgent
from ..core.commands import CancelTurns, Submit
from ..core.state import State
from ..errors import BadInput
from ..events import TurnAccepted
from ..ids import RequestId, id_problem
from ..runtime.directory import LoadedAgent
from ..runtime.random_ids import random_message_id, random_request_id
from ..wire.sse import UI_STREAM_HEADERS
from .asked_approvals import check_answer
from .attachment_options import client_prefix
from .client_files import storing_files
from .connection_hooks import agent_of
from .event_streams import Pieces, ended_turn_frames, find_open_turn, follow_turn, open_turn_frames
from .http_caller import Caller, seated
from .permissions import Reject
from .posted_tool_answers import Answering, Standing, find_standing, find_subject, standing_frames, take_answers
from .refusals import refusal_response
from .request_bodies import PostedQuestion, TooLarge, read_json, read_question
from .service import Service
from .streamed_response import StreamedResponse

__all__ = ["get_stream", "post_chat", "post_stop"]

JsonObject = dict[str, Any]

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")


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
    with seated(service, caller) as seat:
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
