"""Erase a principal from one agent: stop its work, let the agent's own code clean up, rewrite the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ..attachments.keys import blob_key
from ..core.commands import CancelJobs, CancelTurns, EndFiber
from ..core.erasure import Eraser, Target
from ..core.evolve import evolve
from ..core.project import project
from ..core.search_rows import search_rows
from ..core.state import State
from ..core.wanted import wanted
from ..errors import LogCorrupt, UsageError
from ..events import Chunk, Identity, decode_event, encode_event
from ..ids import AgentId, FiberId, JobId, RequestId, Seq, children_prefix, root_id
from ..log.base import Activation
from ..log.erasing import Rewriting, StoreErasure
from ..messages.attachments import find_references
from ..rows import SEARCHABLE, KeptRow, MessageRow, Row
from .api.erasures import AgentErased
from .attachment_sweep import stored_references
from .directory import Directory, LoadedAgent
from .rebuild import Projections

__all__ = ["erase_from_agent", "erasure_of", "stop_work_of"]

log = logging.getLogger("everyword.runtime")

PAGE: Final = 500

STOP_LIMIT: Final = 10.0
"""Seconds that turns of the principal have to end. The log is rewritten all the same afterwards."""


def erasure_of(directory: Directory) -> StoreErasure:
    """Return the part of the store that erases.

    Raises:
        UsageError: it has none.
    """
    if directory.store.erasure is None:
        raise UsageError("unable to erase a principal; this store cannot rewrite logs. Give it an `erasure`.")
    return directory.store.erasure


async def stop_work_of(directory: Directory, agent: AgentId, principal: str) -> None:
    """Stop the turns, jobs and fibers of a principal, and wait until the turns have ended."""
    async with directory.attach(agent) as loaded:

        def find(state: State) -> tuple[list[RequestId], list[asyncio.Future[Any]], list[JobId], list[FiberId]]:
            turns = [turn for turn in state.open.values() if _is(turn.accepted.principal, principal)]
            ends = [loaded.reconciler.waiters.wait(state, turn.id) for turn in turns]
            jobs = [job for job, each in state.jobs.items() if _is(each.added.principal, principal)]
            fibers = [each for each in state.fibers.values() if each.outcome is None and _is(each.principal, principal)]
            return [turn.request for turn in turns], ends, jobs, [fiber.id for fiber in fibers]

        requests, ends, jobs, fibers = await loaded.actor.inspect(find)
        await _stop(loaded, requests, jobs, fibers)
        if ends:
            done, left = await asyncio.wait(ends, timeout=STOP_LIMIT)
            for end in done:
                end.exception()
            if left:
                log.warning("%d turns of %r do not end; their log is rewritten while they are open", len(left), agent)


async def _stop(
    loaded: LoadedAgent, requests: Sequence[RequestId], jobs: Sequence[JobId], fibers: Sequence[FiberId]
) -> None:
    for request in requests:
        await loaded.actor.insist(CancelTurns(request))
    if jobs:
        await loaded.actor.insist(CancelJobs(jobs))
    for fiber in fibers:
        await loaded.actor.insist(EndFiber(fiber, "cancelled"))


def _is(who: Identity | None, principal: str) -> bool:
    return who is not None and who.id == principal


async def erase_from_agent(directory: Directory, agent: AgentId, target: Target) -> AgentErased:
    """Rewrite the log of an agent without the principal, and compute its rows again, all or nothing.

    Doing it again is harmless.

    Raises:
        OwnedElsewhere: another node owns the agent.
        LogCorrupt: an event cannot be read. Nothing was changed.
    """

    async def work(activation: Activation) -> AgentErased:
        return await _erase(directory, directory.stored_ids.known(agent), activation, target)

    return await directory.rewrite(agent, work)


async def _erase(directory: Directory, agent: AgentId, activation: Activation, target: Target) -> AgentErased:
    eraser, state, rows = Eraser(target), State(), Projections()
    changed, chunks = list[tuple[Seq, bytes]](), list[tuple[Seq, bytes]]()
    states, cursor, files = 0, Seq(0), set[str]()
    while page := await directory.store.read(agent, cursor, PAGE):
        for stored in page:
            states += stored.kind == "state.set"
            try:
                event = decode_event(stored.body)
                new = eraser.rewrite(event)
                if new is None:
                    continue
                evolve(state, new, stored.at)
                rows.put(project(state, new))
            except (msgspec.DecodeError, AssertionError, KeyError, TypeError, ValueError) as exc:
                raise LogCorrupt(f"unable to rewrite {agent!r}; event {stored.seq} cannot be used ({exc})") from exc
            if new is not event:
                (chunks if isinstance(new, Chunk) else changed).append((stored.seq, encode_event(new)))
                files |= find_references(stored.body)
        cursor = page[-1].seq
    superseded = max(states - 1, 0)
    is_searchable = any(row.kind == SEARCHABLE for row in await directory.store.kept(agent))
    rows.put(search_rows(state, [], is_searchable))
    turns = sorted(eraser.turns - set(eraser.open_turns)) if target.with_answers else []
    if changed or chunks or superseded or turns:
        rewriting = Rewriting(
            agent, activation.epoch, changed, turns, rows.rows(), wanted(state, directory.clock.now()).wake, chunks
        )
        # First: once the log is rewritten, nothing says which attachments were those of the principal.
        deleted = await _delete_files(directory, agent, files, rewriting.rows)
        await erasure_of(directory).rewrite(rewriting)
        if deleted:
            eraser.counts["attachments"] = deleted
    left = eraser.turns & set(eraser.open_turns) if target.with_answers else ()
    problem = (
        f"answers that are still being written stay ({len(left)}). Erase again when they have ended" if left else None
    )
    return AgentErased(dict(eraser.counts), superseded, problem)


async def _delete_files(directory: Directory, agent: AgentId, files: set[str], rows: Sequence[Row]) -> int:
    """Delete attachments of messages that are about to be replaced; return how many there were.

    What the agent's new rows refer to stays, and what another agent of the family does.
    """
    attachments = directory.attachments
    if attachments is None or not files:
        return 0
    deleted = 0
    with attachments.holds.watch() as touched:
        family = [root_id(agent), *await directory.store.agents(children_prefix(root_id(agent)))]
        kept = await stored_references(directory.store, [each for each in family if each != agent])
        for row in rows:
            if isinstance(row, MessageRow):
                kept |= find_references(row.body or b"") | find_references(row.draft or b"")
            elif isinstance(row, KeptRow):
                kept |= find_references(row.body or b"")
        for sha256 in sorted(files - kept):
            directory.check_lease(agent)
            deleted += await attachments.holds.delete(attachments.store, blob_key(agent, sha256), touched)
    return deleted
