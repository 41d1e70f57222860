"""The ASGI application: its settings, its start and stop, and the way of a request or a socket to its agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from ..agents import Agent, responder_for
from ..agents.handles.app_handle import AppHandle
from ..agents.kinds import all_kinds
from ..agents.sub_agent_classes import class_of
from ..agents.tools.threads import DEFAULT_SIZE, ToolThreads
from ..errors import AgentStopped, EverywordError, TooFast, TooManyQueued, UsageError, public_text
from ..ids import AgentId, id_problem, split_agent_id
from ..log.base import LogStore
from ..log.nodes import LiveNode
from ..observe.api import AccessDecision, EventHook, Observer
from ..principals import Principal, acting_as, acting_for
from ..runtime.agent_runtime.agent_runtime import AgentRuntime
from ..runtime.api import JobCall, Responder, StreamFunction
from ..runtime.clock import Clock
from ..runtime.directory import Directory, Settings
from ..runtime.erasures import Erasures
from ..runtime.method_calls import MethodCalls
from .access_policy import NOTHING_TO_WATCH, AccessPolicy
from .admission import Admission, Admitted, OnAnotherNode
from .agent_classes import index_by_all_kinds, index_by_kind
from .attachment_links import AppAttachments
from .attachment_options import AttachmentOptions, client_prefix
from .attachment_resources import answer_signed
from .close_codes import REFUSED, TRY_LATER
from .conversation_options import ConversationOptions, OwnJobs
from .health import ServerPages
from .http import answer_http
from .http_caller import Caller
from .lifecycle import Lifecycle
from .limits import Limits
from .list_resources import ListResources
from .node_settings import NodeSettings
from .notification_jobs import NotificationJobs
from .notifications import NotificationOptions
from .permissions import Authenticate, Authorize, Permissions, Reject
from .rate_limited_receive import RateLimitedBody, RateLimitedFrames
from .refusals import TRY_AGAIN, refusal_response, refuse_socket
from .service import Service
from .setup_check import SetupCheck
from .shared_pages import SharedPages
from .socket_context import SocketSettings
from .stores import Durability, can_be_shared, forget_agent, open_store, shown_store
from .sub_agent_access import SubAgentRefusal
from .websocket import serve_socket

if TYPE_CHECKING:
    from .node_links import NodeLinks
    from .remote_calls import RemoteCalls

__all__ = ["Everyword"]

log = logging.getLogger("everyword.server")

DISCONNECT = "disconnect"
"""What nodes ask of each other when a principal is to be disconnected everywhere."""


class Everyword(AppHandle):
    """Serves agents: an ASGI application, to be run as it is or mounted in another one.

    It starts with its lifespan, with `async with app:`, or at the first request, if it is mounted and its lifespan
    does not run. Compose it into another application's lifespan with `lifespan=app.lifespan`.

    Args:
        agents: The classes to serve, each at `{base_path}/{kind}/{name}`.
        store: A path, "memory:", "sqlite:///path", "postgresql://user@host/database", or a LogStore.
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
        durability: What a commit survives: the death of the "process", or the loss of "power" too. By default the
            store's own: "process" for SQLite, "power" for PostgreSQL.
        on_event: Called with everything that was committed but chunks: after the commit, outside of the agent, never in
            its way. What it raises is logged; when it is too slow, it is not told everything.
        tool_threads: How many tools that are plain functions may run at the same time; further calls wait.
        observe: Who else watches: `everyword.observe.Tracing()`, `Metrics()`, `Audit("audit.jsonl")`, or your own.
        node: How other nodes find this one, with a store that several nodes share; by default from the environment.
        conversations: Owners, titles and retention of conversations, as lists show them.
        notifications: Webhooks and a function that are told what happened while no one watched.
        attachments: Where files of messages are kept, and which may be stored.
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
        durability: Durability | None = None,
        on_event: EventHook | None = None,
        tool_threads: int = DEFAULT_SIZE,
        observe: Sequence[Observer] = (),
        node: NodeSettings | None = None,
        conversations: ConversationOptions | None = None,
        notifications: NotificationOptions | None = None,
        attachments: AttachmentOptions | None = None,
    ) -> None:
        self.classes = index_by_kind(agents)
        self._served = index_by_all_kinds(self.classes)
        self.limits = limits if limits is not None else Limits()
        self.grace = 10.0
        """Seconds that running turns have to finish when the process stops."""
        self.is_development = False
        """True under `everyword dev`: a 404 names the kinds of agents that are served."""
        self.clock: Clock | None = None
        """The clock of the agents; None for the machine's own. Tests set a manual one."""
        self._store, self._durability, self._node_settings = store, durability, node
        self._retention = round(retention.total_seconds() * 1000)
        self._admission = Admission(
            AccessPolicy(Permissions(authenticate, authorize), origins), self._served, base_path
        )
        self._tool_threads = ToolThreads(tool_threads)
        self._pages = ServerPages(on_event, observe, self._tool_threads)
        self._wrap_stream: Callable[[StreamFunction], StreamFunction] = self._pages.around
        """Wraps the function that answers a turn, for observers and the test kit."""
        self._calls_elsewhere: RemoteCalls | None = None
        self._conversation_options = conversations if conversations is not None else ConversationOptions()
        self._notification_options = notifications
        self._notification_jobs = NotificationJobs(notifications)
        self._own_jobs = OwnJobs(self._conversation_options, self._notification_jobs.by_callback)
        self._attachment_options = attachments if attachments is not None else AttachmentOptions()
        self._lists = ListResources(self)
        self._shared = SharedPages(self)
        self._erasing = Erasures(self._running_directory, lambda: self._calls)
        self._resuming: asyncio.Task[None] | None = None
        """Goes on with erasures that a process before this one has begun."""
        self._setup = SetupCheck()
        self._lifecycle = Lifecycle(self._open, self._close)

    # -- start and stop ------------------------------------------------------------------------------------------

    async def start(self) -> Service:
        """Open the log and continue open turns; once, for any number of callers. Starts again after a close.

        Raises:
            LogError: the log cannot be used; another call tries again.
        """
        return await self._lifecycle.start()

    async def service(self) -> Service:
        """Start the app unless it was started. A closed app stays closed: a late request must not start it again."""
        return await self._lifecycle.service()

    async def aclose(self) -> None:
        """Start no more turns, give running ones `grace` to finish, leave the rest to the next process (R-19)."""
        await self._lifecycle.aclose()

    async def _open(self) -> Service:
        rules = self._conversation_options.rules(self.limits.queued_turns)
        if self._notification_options is not None:
            self._notification_options.apply(rules)
        self._notification_jobs.open()
        given = self._node_settings
        node_settings = given.for_worker() if given is not None else NodeSettings.from_environment()
        store = open_store(self._store, self._durability, node_settings)
        attachments = self._attachment_options.opened(store, self.limits, self.base_path)
        settings = Settings(retention=self._retention, grace=self.grace, app_rules=rules, attachments=attachments)
        node = self._links(node_settings) if store.nodes is not None else None
        forget = partial(forget_agent, store, attachments)
        directory = Directory(
            store,
            self._responder,
            clock=self.clock,
            settings=settings,
            forget=forget,
            kinds=self.kinds_of,
            on_append=self._pages.begin(store.nodes.name if store.nodes is not None else None),
        )
        self._directory = directory
        try:
            if node is not None and store.nodes is not None:
                store.nodes.announce(await node.listen())
                node.attach(directory)
            await directory.open()
        except BaseException:
            await directory.aclose()  # if the store is open: this node must not stay registered
            if node is not None:
                await node.aclose()
            await self._notification_jobs.aclose()
            await self._pages.end()
            raise
        self.access_policy.permissions.clock, self.access_policy.permissions.hear = directory.clock, self._pages.hear
        self._setup.begin(self.classes.values())
        self._resuming = asyncio.create_task(self._erasing.resume(), name="erasures to go on with")
        return Service.new(directory, self.limits, node, self.base_path)

    def _links(self, settings: NodeSettings) -> NodeLinks:
        """Return the links to other nodes. What only nodes need is not imported for a file."""
        from .node_links import NodeLinks
        from .remote_calls import RemoteCalls

        links = NodeLinks(settings, self, self._answer_node)
        self._calls_elsewhere = RemoteCalls(links)
        return links

    async def _close(self, service: Service | None) -> None:
        await self._setup.end()
        if self._resuming is not None:
            self._resuming.cancel()
            await asyncio.wait([self._resuming])
            self._resuming = None
        try:
            if service is not None:
                await service.directory.aclose()
                if service.node is not None:
                    await service.node.aclose()
        finally:
            await self._notification_jobs.aclose()
            await self._pages.end()

    async def _answer_node(self, method: str, payload: bytes) -> bytes | AsyncIterator[bytes]:
        """Do what another node asks for."""
        if method == DISCONNECT:
            return b"%d" % (await self.service()).open_connections.disconnect(payload.decode())
        report = await self._pages.answer_node(method, payload, await self.service())
        if report is not None:
            return report
        from .remote_calls import CallsForOthers

        answer = await CallsForOthers(lambda: self._calls).answer(method, payload)
        if answer is None:
            raise UsageError(f"unable to answer {method!r}; this release does not know it")
        return answer

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
        self.access_policy.invite(origins)

    async def disconnect(self, *, principal: Principal | str) -> int:
        """Close every socket and stream of a principal, at once; return how many there were.

        The stock client connects again and is asked who it is: let `authenticate` refuse it first. Turns go on.
        """
        service, who = await self.service(), principal.id if isinstance(principal, Principal) else principal
        count = service.open_connections.disconnect(who)
        if service.node is not None:
            count += sum(int(each) for each in await service.node.everywhere(DISCONNECT, who.encode()))
        return count

    @property
    def base_path(self) -> str:
        """Where agents are found: a slash before it and none behind it; the empty string for the root."""
        return self._admission.base_path

    @property
    def access_policy(self) -> AccessPolicy:
        """Access control, the same for everything that is served beside the agents."""
        return self._admission.access

    @property
    def where(self) -> str:
        """Where the log is, for people."""
        return shown_store(self._store)

    @property
    def attachments(self) -> AppAttachments:
        """The attachments of all agents: signed links, and deleting what no message refers to."""
        return AppAttachments(self.service)

    def use_store(self, store: str | LogStore) -> None:
        """Use another store than that of the constructor, from the next start on."""
        self._store = store

    @property
    def node(self) -> LiveNode | None:
        """This process as other nodes see it; None if the app is not running, or the store is this process's alone."""
        ownership = self._directory.ownership if self._lifecycle.is_running else None
        return ownership.live_node(ownership.nodes.incarnation) if ownership is not None else None

    @property
    def has_shared_store(self) -> bool:
        """Whether several processes may use the store at the same time, each as a node: PostgreSQL."""
        return can_be_shared(self._store)

    # -- agents -----------------------------------------------------------------------------------------------------

    @property
    def _calls(self) -> MethodCalls:
        return MethodCalls(self._running_directory, self._calls_elsewhere)

    @property
    def _erasures(self) -> Erasures:
        return self._erasing

    def _running_directory(self) -> Directory:
        if not self._lifecycle.is_running:
            raise UsageError("unable to use an agent; the app is not running. Use `async with app:` or its lifespan.")
        return self._directory

    async def _note_act(self, action: str, kind: str = "", name: str = "", **what: object) -> None:
        hear = self._pages.hear
        if hear is None:
            return
        now = self._directory.clock.now()
        waiting = hear(AccessDecision(now, acting_for(), action, kind, name, "done", None, what))
        if waiting is not None:
            await waiting

    async def _run_own_job(self, agent: Agent[Any], call: JobCall) -> None:
        await self._own_jobs.run(agent, call)

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
                scope, body = self.access_policy.without_credentials(scope), RateLimitedBody(receive)
                request = Request(scope, body)
                headers = self.access_policy.cors_headers(request)
                try:
                    response = await self._respond(request, body)
                except TooFast as exc:
                    response = refusal_response(
                        429,
                        public_text(exc, "unable to accept so much data; try again later"),
                        retry_after=f"{exc.wait // 1000 + 1}",
                    )
                body.is_answered = True
                await response(scope, body, _adding(headers, send))
            case "websocket":
                scope, frames = self.access_policy.without_credentials(scope), RateLimitedFrames(receive, send)
                await self._serve_socket(WebSocket(scope, frames, send), frames, send)
            case kind:
                raise UsageError(f"unable to serve a {kind!r} connection; it is neither HTTP nor a WebSocket")

    async def _respond(self, request: Request, body: RateLimitedBody) -> ASGIApp:
        about: ASGIApp | None = await self._pages.answer(request, self.access_policy, self.service)
        about = about if about is not None else await self._lists.answer(request, body)
        about = about if about is not None else await self._shared.answer(request)
        if about is not None:
            return about
        if "signature" in request.query_params:
            signed = await answer_signed(await self.service(), request, self.access_policy.permissions)
            if signed is not None:
                return signed
        is_preflight = request.method == "OPTIONS" and "origin" in request.headers
        entered = await self._enter(request) if not is_preflight else self.access_policy.refuse_at_sight(request)
        if isinstance(entered, Reject):
            return refusal_response(entered.status, entered.reason)
        if isinstance(entered, SubAgentRefusal):
            return entered.answer()
        if isinstance(entered, OnAnotherNode):
            from .node_links import relay_client

            return partial(relay_client, entered.link, entered.principal)
        if entered is None:
            return Response(status_code=204, headers=self.access_policy.preflight_headers(request))
        body.count_for(entered.service, entered.permit.principal)
        caller = Caller(request, entered.agent, entered.permit, entered.action, entered.resource)
        return await answer_http(entered.service, caller, entered.resource)

    async def _serve_socket(self, websocket: WebSocket, frames: RateLimitedFrames, send: Send) -> None:
        entered = await self._enter(websocket)
        if isinstance(entered, Reject):
            is_final = entered.status < 500 and entered is not NOTHING_TO_WATCH
            await refuse_socket(websocket, REFUSED if is_final else TRY_LATER, entered.reason)
            return
        if isinstance(entered, SubAgentRefusal):
            await refuse_socket(websocket, entered.close_code, entered.close_reason)
            return
        if isinstance(entered, OnAnotherNode):
            from .node_links import relay_client

            node, agent = entered.node, entered.agent
            find_owner = partial(node.link_to_owner, agent)
            await relay_client(entered.link, entered.principal, websocket.scope, frames, send, find_owner)
            return
        if (problem := id_problem(websocket.query_params.get("_pk", ""), "_pk")) is not None:
            await refuse_socket(websocket, REFUSED, f"unable to connect; {problem}")
            return
        service, agent, permit = entered.service, entered.agent, entered.permit
        principal = permit.principal
        try:
            service.readers.check(agent, principal.id)
        except TooManyQueued as exc:
            await refuse_socket(websocket, TRY_LATER, public_text(exc, TRY_AGAIN))
            return
        frames.count_for(service, principal)
        attachments = service.directory.attachments
        turns, calls, clock = service.turn_rate, service.call_rate, service.directory.clock
        settings = SocketSettings(
            max_frame=service.limits.frame,
            max_unread=service.limits.unread,
            unread_seconds=service.limits.unread_seconds,
            slices=service.slices,
            permit=permit,
            open_connections=service.open_connections,
            may_ask=lambda: turns.wait_needed(principal.id, clock.now()),
            prefix=client_prefix(websocket.scope, attachments, self.base_path) if attachments else None,
            may_call=lambda: calls.wait_needed(principal.id, clock.now()),
        )
        # Every hook and callable of the client runs in a task that comes of this one.
        with service.readers.hold(agent, principal.id), acting_as(principal.identity):
            await serve_socket(websocket, service.directory, agent, service.clients, settings, send)

    async def _enter(self, connection: HTTPConnection) -> Admitted | OnAnotherNode | Reject | SubAgentRefusal:
        kinds = sorted(self.classes) if self.is_development else None
        return await self._admission.enter(connection, self.service, named_kinds=kinds)

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


def _adding(headers: dict[str, str], send: Send) -> Send:
    if not headers:
        return send

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = MutableHeaders(scope=message)
            for name, value in headers.items():
                if name != "vary":
                    added[name] = value
                elif value not in added.get(name, ""):  # the owner of a relayed request has added it
                    added.add_vary_header(value)
        await send(message)

    return send_with_headers
