"""Parts of loading an agent: its state from what is stored, and its own code at the start."""

from __future__ import annotations

import asyncio
import logging
from typing import cast

import msgspec

from ..core.restore import restore
from ..core.state import State
from ..errors import LogCorrupt
from ..events import Event, decode_event
from ..ids import AgentId, Millis
from ..log.base import Activation, LogStore
from .api import HasStartHook, Responder
from .rebuild import fold_log

__all__ = ["restored", "started"]

log = logging.getLogger("everyword.runtime")

START_LIMIT = 30.0
"""Seconds that an agent's `on_start` may take: its callers wait, and when the process starts, the whole process."""


async def started(agent: AgentId, responder: Responder) -> None:
    """Call `on_start` of the agent, before any caller uses it."""
    if not getattr(responder, "wants_start", False):
        return
    try:
        async with asyncio.timeout(START_LIMIT):
            await cast(HasStartHook, responder).on_start()
    except TimeoutError:
        log.error("on_start of %r took longer than %g s and was stopped; it is used all the same", agent, START_LIMIT)
    except Exception:
        log.exception("on_start of %r raised; it is used all the same", agent)


async def restored(agent: AgentId, activation: Activation, store: LogStore) -> State:
    """Fold an activation into a state; what cannot be read is reported and left out.

    Raises:
        LogError: the store cannot be read.
    """
    streamed: list[tuple[Millis, Event]] = []
    for stored in activation.chunks:
        try:
            streamed.append((stored.at, decode_event(stored.body)))
        except msgspec.DecodeError as exc:
            log.error("unable to read event %d of %r; it is skipped: %s", stored.seq, agent, exc)
    state, problems = restore(activation.agent, activation.turns, activation.messages, streamed, activation.kept)
    for problem in problems:
        log.error("%r: %s", agent, problem)
    if state.unlisted is not None:
        await _fill_in_lists(agent, state, store)
    return state


async def _fill_in_lists(agent: AgentId, state: State, store: LogStore) -> None:
    """Compute from its log, as a rebuild does, what lists show of an agent of a release without lists."""
    try:
        folded, rows, _ = await fold_log(store, agent, is_searchable=False)
    except LogCorrupt as exc:
        log.error("lists show less of %r: %s", agent, exc)
        return
    state.conversation, state.waiting = folded.conversation, folded.waiting
    state.unlisted = list(rows.listed.values()) if folded.conversation is not None else None
