"""The pages for operators (health check and metrics), and the delivery of committed events to observers."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict, cast

from msgspec import to_builtins
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..agents.tools.threads import ToolThreads
from ..errors import EverywordError, LogError
from ..ids import Millis
from ..observe.api import AccessDecision, EventHook, LoopBlocked, Observer
from ..observe.dispatcher import EventDispatcher
from ..observe.logs import TurnLog
from ..runtime.api import StreamFunction
from ..runtime.commit_loop import OnAppend
from ..runtime.directory import Directory
from .access_policy import AccessPolicy, why_not_local
from .loop_watchdog import hear_blocks
from .permissions import describe_verdict
from .refusals import refusal_response
from .service import Service

if TYPE_CHECKING:
    from ..observe.metrics import Metrics

__all__ = ["ServerPages"]

log = logging.getLogger("everyword.server")

HEALTH: Final = "/healthz"
PATIENCE: Final = 2.0
"""A store that has not answered after this many seconds counts as busy, and busy counts as healthy."""


class ServerPages:
    """The observers of one app, its health check and its metrics."""

    def __init__(self, on_event: EventHook | None, observers: Sequence[Observer], threads: ToolThreads) -> None:
        self._hooks = [on_event] if on_event is not None else []
        self._observers = list(observers)
        self._threads = threads
        self._dispatcher: EventDispatcher | None = None
        self._unhear: Callable[[], None] | None = None

    # -- observers --------------------------------------------------------------------------------------------------

    def begin(self, node: str | None = None) -> OnAppend | None:
        """Start to deliver events; return the function that takes each batch, or None without hooks and observers.

        `node` is the name of this node, with a store that several nodes share.
        """
        if node is not None:
            for observer in self._observers:
                observer.node_name = node
        observers = [*self._observers, TurnLog()] if TurnLog.is_wanted() else self._observers
        if self._observers and self._unhear is None:
            self._unhear = hear_blocks(self._loop_blocked)
        if not self._hooks and not observers:
            return None
        self._dispatcher = EventDispatcher(self._hooks, observers)
        self._dispatcher.start()
        return self._dispatcher.watch

    async def end(self) -> None:
        if self._unhear is not None:
            self._unhear()
            self._unhear = None
        if self._dispatcher is not None:
            await self._dispatcher.aclose()
        for observer in self._observers:
            try:
                await observer.aclose()
            except Exception:
                log.exception("aclose of %r raised", observer)

    @property
    def hear(self) -> Callable[[AccessDecision], Awaitable[None] | None] | None:
        """The function that observers get decisions by; None if no observer wants them."""
        wanted = [each for each in self._observers if type(each).decided is not Observer.decided]
        return partial(_hear, wanted) if wanted else None

    def _loop_blocked(self, blocked: LoopBlocked) -> None:
        for observer in self._observers:
            try:
                observer.loop_blocked(blocked)
            except Exception:
                log.exception("loop_blocked of %r raised", observer)

    def around(self, stream: StreamFunction) -> StreamFunction:
        """Return the function that answers a turn, wrapped by the observers that want it."""
        for observer in self._observers:
            if type(observer).around is not Observer.around:
                stream = observer.around(stream)
        return stream

    # -- pages ------------------------------------------------------------------------------------------------------

    async def answer(
        self, request: Request, access: AccessPolicy, service: Callable[[], Awaitable[Service]]
    ) -> Response | None:
        """Return the health check or the metrics; None for any other path."""
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        if request.method not in ("GET", "HEAD"):
            return None
        if path == HEALTH:
            refused = access.refuse_strangers(request)
            if refused is not None:
                return refusal_response(refused.status, refused.reason)
            return await _health(service, is_local=why_not_local(request) is None)
        metrics = self._metrics_at(path)
        return await self._metrics(metrics, request, service) if metrics is not None else None

    async def answer_node(self, method: str, payload: bytes, service: Service) -> bytes | None:
        """Answer another node of the group that asks for the health or the metrics of this one; None otherwise."""

        async def export(path: str) -> bytes:
            metrics = self._metrics_at(path)
            return metrics.export(**self._counts(service)) if metrics is not None else b""

        return await service.group.answer(method, payload, export) if service.group is not None else None

    def _metrics_at(self, path: str) -> Metrics | None:
        found: Any = next((each for each in self._observers if getattr(each, "path", None) == path), None)
        return cast("Metrics | None", found)

    async def _metrics(self, metrics: Metrics, request: Request, service: Callable[[], Awaitable[Service]]) -> Response:
        """Return the metrics of `everyword.observe.Metrics`, if the app has them, at their `path`.

        With a PostgreSQL store, every sample has a label `node`. A worker returns those of all workers of its machine.

        Answers:
            200: The metrics in Prometheus' text format.
            403: The client may not read the metrics.
        """
        if metrics.allow is None:
            why = why_not_local(request)
            if why is not None:
                return refusal_response(
                    403, f"unable to show metrics; the request {why}. Say who may: Metrics(allow=...)."
                )
        elif not await _is_allowed(metrics, request):
            return refusal_response(403, "unable to show metrics; you may not read them")
        running = await service()
        counts, group = self._counts(running), running.group
        if group is None:
            return Response(metrics.render(**counts), media_type=metrics.content_type)
        exports = await group.exports(str(metrics.path), metrics.export(**counts))
        return Response(metrics.render_nodes(exports), media_type=metrics.content_type)

    def _counts(self, service: Service) -> _Counts:
        missed = self._dispatcher.missed if self._dispatcher is not None else 0
        return {"loaded": len(service.directory), "missed": missed, "threads": self._threads}


def _hear(observers: Sequence[Observer], decision: AccessDecision) -> Awaitable[None] | None:
    """Tell each observer; return what the client has to wait for."""
    waiting: list[Awaitable[None]] = []
    for observer in observers:
        try:
            if (each := observer.decided(decision)) is not None:
                waiting.append(each)
        except Exception:
            log.exception("%r failed at a decision about %r", observer, decision.action)
    return _all(waiting) if waiting else None


async def _all(waiting: Sequence[Awaitable[None]]) -> None:
    for each in waiting:
        await each


class _Counts(TypedDict):
    loaded: int
    missed: int
    threads: ToolThreads


async def _is_allowed(metrics: Metrics, request: Request) -> bool:
    """Call `Metrics(allow=...)`. Only True allows; a hook that fails refuses the client."""
    assert metrics.allow is not None
    try:
        given = metrics.allow(request)
        allowed: object = await given if inspect.isawaitable(given) else given
    except Exception:
        log.exception("`allow` of the metrics failed; the client was refused")
        return False
    if not isinstance(allowed, bool):
        log.error("`allow` of the metrics returned %s; return True or False", describe_verdict(allowed))
    return allowed is True


async def _health(service: Callable[[], Awaitable[Service]], *, is_local: bool) -> Response:
    """Tell a load balancer whether this process serves.

    With a PostgreSQL store, a request that seems to come from this machine also gets `nodes`: this node, or all workers
    of the machine, each with `name`, `incarnation`, `state` (`up`, `draining`, `no lease`, `unreachable`) and
    `lease_left` in seconds. The status is that of the node that answers.

    Answers:
        200: `{"status": "ready"}`.
        403: There is no `authorize`, and the request does not come from this machine.
        503: `{"status": "stopping"}`, or `{"status": "failing"}` if the store cannot write, or if this node has no
            lease.
    """
    status, code = "ready", 200
    nodes: dict[str, Any] = {}
    try:
        running = await service()
        if running.directory.is_stopping:
            status, code = "stopping", 503
        elif not await _is_writable(running.directory):
            status, code = "failing", 503
        if running.group is not None and is_local:
            nodes = {"nodes": to_builtins(await running.group.reports())}
    except EverywordError as exc:
        log.warning("not healthy: %s", exc)
        status, code = "failing", 503
    return JSONResponse({"status": status, **nodes}, code, {"cache-control": "no-store"})


async def _is_writable(directory: Directory) -> bool:
    """Tell whether the store can write: no agent waits for a failed write to work again, and a test write works."""
    if directory.ownership is not None:
        # The heartbeat has written. A database that swallows everything would make a check of our own hang. Agents that
        # could not be written do not count: another node may own them by now, and they never work again here.
        return directory.ownership.nodes.is_valid
    if directory.failing:
        return False
    try:
        async with asyncio.timeout(PATIENCE):
            await directory.store.prune(Millis(0))  # a write that deletes nothing
    except TimeoutError:
        return True
    except LogError as exc:
        log.warning("the store cannot write: %s", exc)
        return False
    return True
