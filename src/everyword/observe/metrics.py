"""Prometheus metrics, counted from committed events. Needs `everyword[prometheus]`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from ..events import AttemptStarted, CallStarted, JobEnded, TurnAccepted, TurnEnded
from ..extras import missing
from ..ids import AgentId, split_agent_id
from .api import Happened, LoopBlocked, Observer, TurnFacts
from .metric_families import NodeFamilies, export_families

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

__all__ = ["Metrics"]

Allow = Callable[[Any], Awaitable[bool] | bool]

_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_TOKENS: Final = {"inputTokens": "input", "outputTokens": "output"}


class ThreadCounts(Protocol):
    """The thread pool for plain (not async) tools."""

    size: int

    @property
    def busy(self) -> int: ...
    @property
    def waiting(self) -> int: ...


class Metrics(Observer):
    """Counts turns, attempts, chunks, tool calls, tokens and jobs, by kind of agent, and serves them at `path`.

    Args:
        registry: The Prometheus registry; a new one by default.
        path: The path of the metrics page, relative to where the app is mounted; None for no page.
        allow: Called with the request; returns True if it may read the metrics. By default only requests from this
            machine may.
    """

    wants_chunks = True

    def __init__(
        self, registry: CollectorRegistry | None = None, *, path: str | None = "/metrics", allow: Allow | None = None
    ) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError as exc:
            raise missing("prometheus-client", "prometheus", "collect metrics") from exc
        self.path, self.allow = path, allow
        self.registry = registry if registry is not None else prometheus.CollectorRegistry()
        self._exposition = prometheus.generate_latest
        self.content_type = prometheus.CONTENT_TYPE_LATEST
        own: dict[str, Any] = {"registry": self.registry}
        count, time, gauge = prometheus.Counter, prometheus.Histogram, prometheus.Gauge
        kind = ["kind"]
        self._turns = count("everyword_turns_total", "Turns that ended, by outcome.", [*kind, "outcome"], **own)
        self._attempts = count("everyword_attempts_total", "Attempts that began, by cause.", [*kind, "cause"], **own)
        self._chunks = count("everyword_chunks_total", "Chunks that were committed.", kind, **own)
        self._calls = count("everyword_tool_calls_total", "Calls of agents' own tools.", [*kind, "tool"], **own)
        self._tokens = count("everyword_tokens_total", "Tokens that models counted.", [*kind, "direction"], **own)
        self._jobs = count("everyword_jobs_total", "Runs of jobs that ended, by outcome.", ["outcome"], **own)
        self._missed = gauge("everyword_missed_batches", "Commits that were not counted for lack of time.", **own)
        self._loaded = gauge("everyword_loaded_agents", "Agents in memory.", **own)
        self._busy = gauge("everyword_tool_threads_busy", "Threads that run a tool.", **own)
        self._size = gauge("everyword_tool_threads_max", "Threads that may run tools at the same time.", **own)
        self._held_up = gauge("everyword_tool_calls_waiting", "Calls that wait for a free thread.", **own)
        self._open = gauge("everyword_open_turns", "Turns that were accepted and have not ended.", kind, **own)
        self._took = time("everyword_turn_seconds", "From acceptance to end.", kind, buckets=_SECONDS, **own)
        self._waited = time("everyword_turn_wait_seconds", "From acceptance to start.", kind, buckets=_SECONDS, **own)
        self._blocked = time(
            "everyword_loop_blocked_seconds", "Times in which code blocked the loop.", kind, buckets=_SECONDS, **own
        )
        self._silent = time(
            "everyword_first_chunk_seconds", "From start to first chunk.", kind, buckets=_SECONDS, **own
        )

    def render(self, *, loaded: int = 0, missed: int = 0, threads: ThreadCounts | None = None) -> bytes:
        """Return the text that Prometheus reads."""
        self._measure(loaded, missed, threads)
        return self._exposition(self.registry)

    def export(self, *, loaded: int = 0, missed: int = 0, threads: ThreadCounts | None = None) -> bytes:
        """Return the same for `render_nodes`, which may be called on another node."""
        self._measure(loaded, missed, threads)
        return export_families(self.registry)

    def render_nodes(self, exports: Iterable[tuple[str, bytes]]) -> bytes:
        """Return the text that Prometheus reads for several nodes, each by its name: samples have a label `node`."""
        return self._exposition(NodeFamilies(exports))

    def _measure(self, loaded: int, missed: int, threads: ThreadCounts | None) -> None:
        if threads is not None:
            self._busy.set(threads.busy)
            self._size.set(threads.size)
            self._held_up.set(threads.waiting)
        self._loaded.set(loaded)
        self._missed.set(missed)

    def happened(self, happened: Happened) -> None:
        kind, event, facts = happened.agent_kind, happened.event, happened.facts
        match event:
            case TurnAccepted():
                self._open.labels(kind).inc()
            case AttemptStarted():
                self._attempts.labels(kind, event.cause).inc()
                if facts is not None and facts.accepted_at is not None and event.attempt == 1:
                    self._waited.labels(kind).observe((happened.at - facts.accepted_at) / 1000)
            case CallStarted():
                self._calls.labels(kind, event.tool).inc()
            case JobEnded():
                self._jobs.labels(event.outcome).inc()
            case TurnEnded():
                self._ended(happened, event)
            case _:
                pass

    def _ended(self, happened: Happened, event: TurnEnded) -> None:
        kind, facts = happened.agent_kind, happened.facts
        self._turns.labels(kind, event.outcome.value).inc()
        self._count_tokens(kind, event)
        if facts is None:
            return  # accepted before this process started, so it was not counted as open
        self._open.labels(kind).dec()
        if facts.accepted_at is not None:
            self._took.labels(kind).observe((happened.at - facts.accepted_at) / 1000)
        if facts.first_chunk_at is not None and facts.begun_at is not None:
            self._silent.labels(kind).observe((facts.first_chunk_at - facts.begun_at) / 1000)

    def _count_tokens(self, kind: str, event: TurnEnded) -> None:
        """Count the tokens of the turn itself; those of a sub-agent are counted when its own turn ends."""
        usage = msgspec.json.decode(bytes(event.usage)) if bytes(event.usage) else None
        for name, direction in _TOKENS.items():
            if isinstance(usage, dict) and isinstance(usage.get(name), int | float):
                self._tokens.labels(kind, direction).inc(usage[name])

    def loop_blocked(self, blocked: LoopBlocked) -> None:
        kind = split_agent_id(blocked.agent)[0] if blocked.agent is not None else ""
        self._blocked.labels(kind).observe(blocked.seconds)

    def streamed(self, agent: AgentId, facts: TurnFacts | None, chunks: int) -> None:
        self._chunks.labels(split_agent_id(agent)[0]).inc(chunks)
