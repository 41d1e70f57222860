"""The ASGI application: agents behind a door, on a log."""

from __future__ import annotations

import asyncio
import logging
import reprlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from ..agents import Agent, agent_kind, responder_for
from ..agents.handles.app_handle import AppHandle
from ..agents.kinds import all_kinds
from ..agents.sub_agent_classes import class_of
from ..agents.tools.threads import DEFAULT_SIZE, ToolThreads
from ..errors import AgentStopped, BadInput, EverywordError, TooFast, TooManyQueued, UsageError, public_text
from ..ids import SUB, AgentId, id_problem, split_agent_id
from ..log.base import LogStore
from ..observe.api import EventHook, Observer
from ..principals import Principal, acting_as
from ..runtime.agent_runtime.agent_runtime import AgentRuntime
from ..runtime.api import Responder, StreamFunction
from ..runtime.clock import Clock
from ..runtime.directory import Directory, Settings
from ..runtime.method_calls import MethodCalls
from .access_policy import NOTHING_TO_WATCH, AccessPolicy, can_be_watched
from .agent_urls import Address, find_address
from .close_codes import REFUSED, TRY_LATER
from .health import ServerPages
from .http import SOCKET, Caller, Service, answer_http, entered_as
from .limits import Limits, RateLimiter, ReaderLimit, TrafficLimiter
from .memory_budget import MemoryBudget
from .open_connections import OpenConnections
from .permissions import Action, Authenticate, Authorize, Connecting, Permissions, Permit, Reject
from .rate_limited_receive import RateLimitedBody, RateLimitedFrames
from .responses import refusal
from .setup_check import SetupCheck
from .socket_context import SocketSettings
from .stop_signals import StopSignals
from .stores import Durability, drop_database, open_store
from .sub_agent_access import SubAgentRefusal, check_sub_agent_access
from .websocket import serve_socket

__all__ = ["Everyword"]

log = logging.getLogger("everyword.server")


class Everyword(AppHandle):
    """Serves agents: an ASGI application, to be run as it is or mounted in another one.

    It starts with its lifespan, with `async with app:`, or, mounted where nobody runs its lifespan, at the first
    request. Compose it into another application's lifespan with `lifespan=app.lifespan`.

    Args:
        agents: The classes to serve, each at `{base_path}/{kind}/{name}`.
        store: A path, "memory:", "sqlite:///path", or a LogStore.
        base_path: Where agents are found, below wherever this application is mounted; "/" for `/{kind}/{name}`.
        authenticate: Says who a client is, once per request or socket: `authenticate(request)` returns a Principal, or
            None for a stranger.
        authorize: Says what a client may do, for everything that is done: `authorize(principal, action, kind, name)`
            returns True, False or a Reject. Without `authenticate`, `authorize(connecting)` answers both questions at
            once. Without either, requests that seem to come from this machine may do everything.
        origins: Pages of other sites that may use it, e.g. "https://example.org" or "http://localhost:*". "*" stands
            for every site, without cookies, and needs `authorize`.
        limits: What one client may ask for.
        retention: How long the chunks of ended turns are kept, and states that were replaced; messages stay.
        durability: What a commit survives: the death of the "process", or the loss of "power" too.
        on_event: Called with everything that was committed but chunks: after the commit, outside of the agent, never in
            its way. What it raises is logged; when it is too slow, it is not told everything.
        tool_threads: How many tools that are plain functions may run at the same time; further calls wait.
        observe: Who else watches: `everyword.observe.Tracing()`, `everyword.observe.Metrics()`, or your own.
    """

    def __init__(
        self,
        agents: Sequence[type[Agent]],
        *,
        store: str | LogStore = "everyword.db",
        base_path: str = "/agents",
        authenticate: Authenticate | None = None,
        authorize: Authorize | None = None,
        origins: Sequence[str] | Literal["*"] = (),
        limits: Limits | None = None,
        retention: timedelta = timedelta(hours=24),
        durability: Durability = "process",
        on_event: EventHook | None = None,
        tool_threads: int = DEFAULT_SIZE,
        observe: Sequence[Observer] = (),
    ) -> None:
        self.classes = _by_kind(agents)
        self._served = _by_all_kinds(self.classes)
        self.base_path = _clean_path(base_path)
        self.limits = limits if limits is not None else Limits()
        self.grace = 10.0
        """Seconds that running turns have to finish when the process stops."""
        self.is_development = False
        """True under `everyword dev`: clients are told what helps a developer, as the kinds of agents."""
        self.clock: Clock | None = None
        """Tells the time; None for the machine's own. Tests turn one by hand."""
        self._store, self._durability = store, durability
        self._retention = round(retention.total_seconds() * 1000)
        self._door = AccessPolicy(Permissions(authenticate, authorize), origins)
        self._tool_threads = ToolThreads(tool_threads)
        self._watch = ServerPages(on_event, observe, self._tool_threads)
        self._wrap_stream: Callable[[StreamFunction], StreamFunction] = self._watch.around
        """Wraps the function that answers a turn, for observers and the test kit."""
        self._setup = SetupCheck()
        self._starting: asyncio.Task[Service] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._signals = StopSignals(self._begin_close)

    # -- start and stop ------------------------------------------------------------------------------------------

    async def start(self) -> Service:
        """Open the log and pick up what was left open; once, however many ask at the same time. Again after a close.

        Raises:
            LogError: the log cannot be used; another call tries again.
        """
        if self._is_closed:
            self._starting = self._closing = None
        return await self.service()

    @property
    def _is_closed(self) -> bool:
        return self._closing is not None and self._closing.done()

    async def service(self) -> Service:
        """Start the app unless it was started. A closed app stays closed: a late request must not start it again."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._open(), name="start of everyword")
        starting = self._starting
        try:
            return await asyncio.shield(starting)
        except BaseException:
            if starting.done() and self._starting is starting and (starting.cancelled() or starting.exception()):
                self._starting = None
            raise

    async def _open(self) -> Service:
        settings = Settings(retention=self._retention, grace=self.grace, max_queued=self.limits.queued_turns)
        store = open_store(self._store, self._durability)
        forget = partial(drop_database, store)
        directory = Directory(
            store,
            self._responder,
            clock=self.clock,
            settings=settings,
            forget=forget,
            kinds=self.kinds_of,
            on_append=self._watch.begin(),
        )
        self._directory = directory
        try:
            await directory.open()
        except BaseException:
            await self._watch.end()
            raise
        self._door.permissions.clock = directory.clock
        self._signals.listen()
        self._setup.begin(self.classes.values())
        limits = self.limits
        pace, calls = RateLimiter(limits.requests_per_minute), RateLimiter(limits.calls_per_minute)
        flow = TrafficLimiter(limits.frames_per_minute, limits.bytes_per_minute)
        seats = ReaderLimit(limits.sockets_per_agent, limits.sockets_per_principal)
        admissions, bodies = OpenConnections(directory.clock), MemoryBudget[asyncio.Timeout](limits.unfinished)
        return Service(directory, limits, pace, calls, seats, flow, admissions, bodies)

    async def aclose(self) -> None:
        """Stop starting turns, let running ones finish for a while, leave the rest to the next process (R-19)."""
        self._signals.deafen()
        self._begin_close()
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def _begin_close(self) -> None:
        if self._starting is not None and self._closing is None:
            if _has_started(self._starting):
                self._directory.begin_drain()  # now: a turn that ends before the task runs must not start the next one
            self._closing = asyncio.create_task(self._close(self._starting), name="end of everyword")

    async def _close(self, starting: asyncio.Task[Service]) -> None:
        await asyncio.wait({starting})
        await self._setup.end()
        try:
            if _has_started(starting):
                await starting.result().directory.aclose()
        finally:
            await self._watch.end()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[None]:
        """Run while another application runs: `Starlette(lifespan=app.lifespan, ...)`."""
        async with self:
            yield

    def invite(self, *origins: str) -> None:
        """Let pages of these sites use it, besides those of the constructor."""
        self._door.invite(origins)

    async def disconnect(self, *, principal: Principal | str) -> int:
        """Close every socket and stream of a principal, at once; return how many there were.

        The stock client connects again and is asked who it is: let `authenticate` refuse it first. Turns go on.
        """
        service = await self.service()
        return service.admissions.disconnect(principal.id if isinstance(principal, Principal) else principal)

    @property
    def door(self) -> AccessPolicy:
        """Access control, the same for everything that is served beside the agents."""
        return self._door

    @property
    def where(self) -> str:
        """Where the log is, for people."""
        return self._store if isinstance(self._store, str) else type(self._store).__name__

    # -- agents -----------------------------------------------------------------------------------------------------

    @property
    def _calls(self) -> MethodCalls:
        return MethodCalls(self._running_directory)

    def _running_directory(self) -> Directory:
        if self._starting is None or self._is_closed:
            raise UsageError("unable to use an agent; the app is not running. Use `async with app:` or its lifespan.")
        return self._directory

    def kinds_of(self, agent: AgentId) -> Sequence[str]:
        """Return the kinds that the class of an agent has and had, the present one first; none for an unknown class."""
        cls = class_of(agent, self._served)
        return all_kinds(cls) if cls is not None else ()

    def _responder(self, agent: AgentId) -> Responder:
        kind, cls = split_agent_id(agent)[0], class_of(agent, self._served)
        if cls is None:
            log.warning("%r stays as it is; no class of kind %r is served here", agent, kind)
            raise AgentStopped(f"unable to load {agent!r}; no class of kind {kind!r} is served here")
        runtime = AgentRuntime(self._directory, agent)
        return responder_for(cls, runtime, self._tool_threads, self, self._wrap_stream)

    # -- requests -----------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Be an ASGI application."""
        match scope["type"]:
            case "lifespan":
                await self._run_lifespan(receive, send)
            case "http":
                scope, body = self._door.without_credentials(scope), RateLimitedBody(receive)
                request = Request(scope, body)
                headers = self._door.cors_headers(request)
                try:
                    response = await self._respond(request, body)
                except TooFast as exc:
                    response = refusal(
                        429, public_text(exc, "unable to take that much"), retry_after=f"{exc.wait // 1000 + 1}"
                    )
                body.is_answered = True
                await response(scope, body, _adding(headers, send))
            case "websocket":
                scope, frames = self._door.without_credentials(scope), RateLimitedFrames(receive, send)
                await self._serve_socket(WebSocket(scope, frames, send), frames, send)
            case kind:
                raise UsageError(f"unable to serve a {kind!r} connection; it is neither HTTP nor a WebSocket")

    async def _respond(self, request: Request, body: RateLimitedBody) -> ASGIApp:
        about = await self._watch.answer(request, self._door, self._running)
        if about is not None:
            return about
        is_preflight = request.method == "OPTIONS" and "origin" in request.headers
        entered = await self._enter(request) if not is_preflight else self._door.refuse_at_sight(request)
        if isinstance(entered, Reject):
            return refusal(entered.status, entered.reason)
        if isinstance(entered, SubAgentRefusal):
            return entered.answer()
        if entered is None:
            return Response(status_code=204, headers=self._door.preflight_headers(request))
        body.count_for(entered.service, entered.permit.principal)
        caller = Caller(request, entered.agent, entered.permit, entered.action)
        return await answer_http(entered.service, caller, entered.resource)

    async def _serve_socket(self, websocket: WebSocket, frames: RateLimitedFrames, send: Send) -> None:
        entered = await self._enter(websocket)
        if isinstance(entered, Reject):
            is_final = entered.status < 500 and entered is not NOTHING_TO_WATCH
            await _turn_away(websocket, REFUSED if is_final else TRY_LATER, entered.reason)
            return
        if isinstance(entered, SubAgentRefusal):
            await _turn_away(websocket, entered.close_code, entered.close_reason)
            return
        if (problem := id_problem(websocket.query_params.get("_pk", ""), "_pk")) is not None:
            await _turn_away(websocket, REFUSED, f"unable to let you in; {problem}")
            return
        service, agent, permit = entered.service, entered.agent, entered.permit
        principal = permit.principal
        try:
            service.seats.check(agent, principal.id)
        except TooManyQueued as exc:
            await _turn_away(websocket, TRY_LATER, public_text(exc, "come back in a moment"))
            return
        frames.count_for(service, principal)
        pace, calls, clock = service.pace, service.calls, service.directory.clock
        settings = SocketSettings(
            max_frame=service.limits.frame,
            max_unread=service.limits.unread,
            unread_seconds=service.limits.unread_seconds,
            slices=service.sharing,
            permit=permit,
            open_connections=service.admissions,
            may_ask=lambda: pace.wait_needed(principal.id, clock.now()),
            may_call=lambda: calls.wait_needed(principal.id, clock.now()),
        )
        # Every hook and callable of the client runs in a task that comes of this one.
        with service.seats.seat(agent, principal.id), acting_as(principal.identity):
            await serve_socket(websocket, service.directory, agent, service.presence, settings, send)

    async def _running(self) -> Directory:
        return (await self.service()).directory

    async def _enter(self, connection: HTTPConnection) -> _Entered | Reject | SubAgentRefusal:
        """Take a request or a socket through the door, to its agent and resource; start when nobody has yet."""
        refused = self._door.refuse_at_sight(connection)
        if refused is not None:
            return refused
        known = await self._door.permissions.authenticate(connection)
        if isinstance(known, Reject):
            return known
        try:
            address = find_address(connection.scope, self.base_path)
        except BadInput as exc:
            return Reject(public_text(exc, "unable to read the path"), 400)
        cls = self._served.get(address.kind) if address is not None else None
        if address is None or cls is None:
            return Reject(self._not_found(address), 404)
        connecting = Connecting(connection, cls, address.name, address.subs)
        permit = await self._door.permissions.permit(connecting, agent_kind(cls), known)
        if isinstance(permit, Reject):
            return permit
        is_socket = connection.scope["type"] == "websocket"
        resource = SOCKET if is_socket else address.resource
        action = await entered_as(permit, resource)
        if isinstance(action, Reject):
            return action
        try:
            service = await self.service()
            agent = await service.directory.stored_ids.find(address.agent)
            loads = bool(address.subs) or is_socket  # other requests are checked by path
            if permit.principal.read_only and loads and not await can_be_watched(service.directory, agent):
                return NOTHING_TO_WATCH
            with acting_as(permit.principal.identity):
                closed = await check_sub_agent_access(service.directory, connection, address, self._served)
            return closed or _Entered(service, agent, address.resource, permit, action)
        except EverywordError as exc:
            log.error("%s", exc)
            return Reject("unable to answer; the log cannot be used right now. Try again.", 503)

    def _not_found(self, address: Address | None) -> str:
        text = "unable to find this page"
        if address is not None:
            text = f"unable to find an agent of kind {reprlib.repr(address.kind)}"
        if not self.is_development:
            return text
        kinds = ", ".join(sorted(self.classes)) or "none"
        return f"{text}; agents are at {self.base_path}/{{kind}}/{{name}}, and the kinds here are: {kinds}"

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.start()
        except EverywordError as exc:
            await send({"type": "lifespan.startup.failed", "message": str(exc)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})


class _Entered(NamedTuple):
    """A client that was let in, and where it goes."""

    service: Service
    agent: AgentId
    resource: str
    permit: Permit
    action: Action


def _has_started(starting: asyncio.Task[Service]) -> bool:
    return starting.done() and not starting.cancelled() and starting.exception() is None


def _clean_path(given: object) -> str:
    """Return a base path with a slash before it and none behind it: the empty string for the root."""
    if not isinstance(given, str):
        raise UsageError(f"unable to serve agents at {given!r}; base_path is text, such as '/agents'")
    path = given.strip("/")
    return f"/{path}" if path else ""


def _check_class(given: object) -> None:
    if not isinstance(given, type):
        name = type(given).__name__
        cure = f"Give the class itself: {name}" if isinstance(given, Agent) else "Give classes: Everyword([Chat])"
        shown = object.__repr__(given) if isinstance(given, Agent) else reprlib.repr(given)
        raise UsageError(f"unable to serve {shown}; it is {name}, not an agent class. {cure}")
    if not issubclass(given, Agent):
        raise UsageError(f"unable to serve {given.__name__}; it is no subclass of Agent, AIChatAgent or Think")


def _by_kind(agents: Any) -> dict[str, type[Agent]]:
    if isinstance(agents, type):
        raise UsageError(f"unable to serve {agents.__name__}; give a list of classes: Everyword([{agents.__name__}])")
    if isinstance(agents, str) or not isinstance(agents, Iterable):
        raise UsageError(f"unable to serve {agents!r}; give a list of agent classes: Everyword([Chat])")
    found: dict[str, type[Agent]] = {}
    for cls in agents:
        _check_class(cls)
        kind = agent_kind(cls)
        if kind == SUB:
            raise UsageError(f"unable to serve {cls.__name__}; /{SUB}/ in a path leads to sub-agents. Rename it.")
        if kind in found:
            names = f"{found[kind].__name__} and {cls.__name__}"
            raise UsageError(f"unable to serve {names}; both are of kind {kind!r}. Rename one of the classes.")
        found[kind] = cls
    return found


def _by_all_kinds(agents: Mapping[str, type[Agent]]) -> dict[str, type[Agent]]:
    """Return the classes by their present kinds, and by those that they had before."""
    found = dict(agents)
    for cls in agents.values():
        for former in cls.aliases:
            if former in found:
                raise UsageError(
                    f"unable to serve {cls.__name__}; its alias {former!r} is a kind of {found[former].__name__}"
                )
            found[former] = cls
    return found


async def _turn_away(websocket: WebSocket, code: int, reason: str) -> None:
    # Accepted first: a browser hides why an upgrade failed, and the stock client would try for ever.
    await websocket.accept()
    await websocket.close(code, reason.encode()[:120].decode(errors="ignore"))


def _adding(headers: dict[str, str], send: Send) -> Send:
    if not headers:
        return send

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = MutableHeaders(scope=message)
            for name, value in headers.items():
                added[name] = value
        await send(message)

    return send_with_headers
