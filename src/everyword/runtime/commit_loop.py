"""The commit loop: actors decide, the store commits, and only then does anything become visible (I-3).

Each tick of it is one callback of the event loop:

1. Every actor that has mail decides what waits in its mailbox. That makes at most one batch per agent.
2. The store is handed all batches of the tick at once.
3. Each batch is published by its actor when the store says that it is committed.

The store may commit while `append` runs (SQLite, if the transaction is small), later from a thread, or after a network
round trip; receipts of different agents may arrive in any order, or never. An actor whose batch is not committed yet
decides nothing, so the batches of one agent are committed one after the other. Several batches of different agents may
be under way at once: how many transactions that makes is the store's business.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context

from ..errors import LogUnavailable
from ..log.base import Batch, LogStore
from ..log.receipt import Receipt
from .actor import Actor

__all__ = ["CommitLoop", "OnAppend"]


log = logging.getLogger("everyword.runtime")

OnAppend = Callable[[Batch, Receipt], None]
"""Called with each batch that the store was handed, and with its receipt. Must not raise, and must not take long."""


class CommitLoop:
    """Commits what the actors of one process decide, with one call of the store per tick."""

    def __init__(
        self, store: LogStore, on_append: OnAppend | None = None, new_context: Callable[[], Context] = Context
    ) -> None:
        self._store, self._on_append, self._new_context = store, on_append, new_context
        self._ready: list[Actor] = []
        """Actors that have mail, in the order in which it came."""

    def schedule(self, actor: Actor) -> None:
        """Let the actor decide in the next tick."""
        if not self._ready:
            # One callback for all of them: a callback each costs as much as deciding a word or two. In a context of its
            # own: the store's tasks belong to no caller.
            asyncio.get_running_loop().call_soon(self._tick, context=self._new_context())
        self._ready.append(actor)

    def _tick(self) -> None:
        ready, self._ready = iter(self._ready), []
        decided: list[tuple[Actor, Batch]] = []
        try:
            for actor in ready:
                batch = actor.context.run(actor.decide)
                if batch is not None:
                    decided.append((actor, batch))
        finally:
            for actor in ready:  # Ctrl-C in the middle of a decision: the others decide all the same
                self.schedule(actor)
            if decided:
                self._commit(decided)

    def _commit(self, decided: list[tuple[Actor, Batch]]) -> None:
        receipts = self._append([batch for _, batch in decided])
        under_way = zip([actor for actor, _ in decided], receipts, strict=True)
        try:
            _publish(under_way)
        finally:
            for actor, receipt in under_way:  # Ctrl-C while a batch is published: the others are published all the same
                receipt.then(actor.committed, actor.context)

    def _append(self, batches: Sequence[Batch]) -> Sequence[Receipt]:
        """Hand the batches to the store; return a receipt for each, whatever the store does."""
        try:
            receipts = list(self._store.append(batches))
            if len(receipts) != len(batches):
                raise LogUnavailable(f"the store gave {len(receipts)} receipts for {len(batches)} batches")
        except Exception as exc:  # noqa: BLE001 - against its contract; what it did is unknown, so every actor is dropped
            return [Receipt(error=exc, is_done=True) for _ in batches]
        if self._on_append is not None:
            try:
                for batch, receipt in zip(batches, receipts, strict=True):
                    self._on_append(batch, receipt)
            except Exception:
                log.exception("unable to tell observers of a batch")
        return receipts


def _publish(under_way: Iterator[tuple[Actor, Receipt]]) -> None:
    """Publish what is committed already, and have the rest published when it is."""
    for actor, receipt in under_way:
        actor.receipt = receipt
        if receipt.is_done:
            actor.context.run(actor.committed, receipt)
        else:
            receipt.then(actor.committed, actor.context)
