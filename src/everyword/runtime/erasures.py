"""Erasures of principals: which agents there are to do, in which order, and how one goes on after a crash.

An erasure is noted before it begins and after each agent. The notes have the principal's id until it is complete, and
only its alias afterwards. Every step is harmless when it is done again, so a process that takes over begins anew.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from ..core.erasure import Target
from ..errors import AgentGone, AgentStopped, EverywordError, UsageError
from ..ids import AgentId, Millis, agent_id, children_prefix, root_id
from ..log.erasing import ErasureNote
from ..log.lists import ConversationQuery
from .agent_erasure import erasure_of
from .api.erasures import AgentErased, Erasure, ErasureStep
from .directory import Directory
from .personal_data import copies_of_answers

__all__ = ["ErasesAgents", "Erasures"]

log = logging.getLogger("everyword.runtime")

PAGE: Final = 200

LOOK_AGAIN: Final = 30_000
"""Milliseconds between two looks for erasures that another node has left unfinished."""


class ErasesAgents(Protocol):
    """Does the parts of an erasure at the owner of an agent, wherever that is."""

    async def destroy(self, agent: AgentId) -> None:
        """Delete an agent, all that it stored and every agent below it."""
        ...

    async def erase(self, agent: AgentId, target: Target) -> AgentErased:
        """Stop the principal's work in an agent, run its `on_erase`, rewrite its log."""
        ...


@dataclass(slots=True)
class _Running:
    """An erasure that this process does."""

    erasure: Erasure
    steps: dict[str, ErasureStep] = field(default_factory=dict)


class Erasures:
    """The erasures of one app."""

    def __init__(self, running: Callable[[], Directory], agents: Callable[[], ErasesAgents]) -> None:
        self._running, self._agents = running, agents
        self._beginning = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[tuple[Erasure, Sequence[ErasureStep]]]] = {}
        self._of_unknown_nodes: set[str] = set()

    async def erase(self, principal: str, *, with_answers: bool = False) -> tuple[Erasure, Sequence[ErasureStep]]:
        """Erase a principal; go on with an erasure of it that was not completed.

        It goes on if the caller is cancelled.
        """
        directory = self._running()
        async with self._beginning:  # two requests at once are one erasure, with one alias
            begun = await self._begun(directory, principal, with_answers=with_answers)
            task = self._task(directory, begun)
        done = await asyncio.shield(task)
        if with_answers and not done[0].with_answers:  # one that was running did not delete them
            return await self.erase(done[0].alias, with_answers=True)
        return done

    async def _begun(self, directory: Directory, principal: str, *, with_answers: bool) -> _Running:
        """Return the erasure of a principal that was not completed, or a new one; it is noted."""
        begun = next((each for each in await self._stored() if each.erasure.principal == principal), None)
        if begun is None or (with_answers and not begun.erasure.with_answers):
            node = directory.ownership.nodes.incarnation if directory.ownership is not None else 0
            erasure = Erasure(
                alias=begun.erasure.alias if begun is not None else f"erased-{secrets.token_hex(6)}",
                started_at=directory.clock.now(),
                with_answers=with_answers,
                principal=principal,
                salt=begun.erasure.salt if begun is not None else secrets.token_hex(32),
                node=node,
            )
            begun = _Running(erasure, begun.steps if begun is not None else {})
            await erasure_of(directory).put_notes([_note(erasure)])
        return begun

    async def all(self) -> list[tuple[Erasure, Sequence[ErasureStep]]]:
        """Return the erasures that the store has notes of."""
        return [(each.erasure, [*each.steps.values()]) for each in await self._stored()]

    async def resume(self) -> None:
        """Go on with erasures that were not completed; with several nodes, look again from time to time."""
        while True:
            try:
                directory = self._running()
            except UsageError:
                return  # the app was closed
            if directory.store.erasure is None:
                return
            try:
                for each in await self._stored():
                    if each.erasure.ended_at is None and self._is_left(directory, each.erasure):
                        log.info("going on with the erasure of a principal, now %r", each.erasure.alias)
                        await asyncio.shield(self._task(directory, each))
            except (AgentStopped, UsageError):
                return
            except EverywordError as exc:
                log.error("unable to go on with the erasure of a principal; %s", exc)
            if directory.ownership is None:
                return
            await directory.clock.sleep_until(Millis(directory.clock.now() + LOOK_AGAIN))

    def _is_left(self, directory: Directory, erasure: Erasure) -> bool:
        """Tell whether no other node does it. A node that joined a moment ago may not be known yet: look twice."""
        if directory.ownership is None:
            return True
        nodes = directory.ownership.nodes
        live = {each.id for each in nodes.live}
        if erasure.node in live:
            return erasure.node == nodes.incarnation
        has_looked = erasure.alias in self._of_unknown_nodes
        self._of_unknown_nodes.add(erasure.alias)
        return has_looked or erasure.node <= max((nodes.incarnation, *live))

    def _task(self, directory: Directory, running: _Running) -> asyncio.Task[tuple[Erasure, Sequence[ErasureStep]]]:
        alias = running.erasure.alias
        task = self._tasks.get(alias)
        if task is None:
            work = self._run(directory, running)
            task = asyncio.create_task(work, name=f"erasure {alias}", context=directory.fresh_context())
            self._tasks[alias] = task
            task.add_done_callback(lambda _: self._tasks.pop(alias, None))
            directory.keep(task)
        return task

    # -- the steps ---------------------------------------------------------------------------------------------------

    async def _run(self, directory: Directory, running: _Running) -> tuple[Erasure, Sequence[ErasureStep]]:
        await self._note_copies(directory, running)
        await self._delete_owned(directory, running)
        await self._rewrite_others(directory, running)
        left = await erasure_of(directory).scrub()
        erasure = replace(running.erasure, left=left)
        if not any(step.problem for step in running.steps.values()):
            erasure = replace(erasure, principal="", salt="", node=0, ended_at=directory.clock.now())
            await erasure_of(directory).put_notes([_note(erasure)])
            await erasure_of(directory).scrub()  # the note had the principal's id until now
        return erasure, [*running.steps.values()]

    async def _note_copies(self, directory: Directory, running: _Running) -> None:
        """Note the forks that have answers of the principal to calls: only the logs that they were copied from say so.

        Those are about to be deleted or rewritten.
        """
        principal = running.erasure.principal
        owned = await self._owned(directory, principal)
        copies = await copies_of_answers(directory, principal)
        left = [each for each in copies if root_id(each[0]) not in owned and each[0] not in running.steps]
        await self._note_all(
            directory, running, [ErasureStep(agent, "rewrite", answered=found) for agent, found in left]
        )

    async def _owned(self, directory: Directory, principal: str) -> list[AgentId]:
        """Return the conversations that the principal owns."""
        lists, before, owned = directory.store.lists, None, list[AgentId]()
        while lists is not None:
            page = await lists.conversations(ConversationQuery(owner=principal, before=before, limit=PAGE))
            owned += [each.agent for each in page]
            if len(page) < PAGE:
                break
            before = page[-1].summary.updated_at, page[-1].agent
        return owned

    async def _delete_owned(self, directory: Directory, running: _Running) -> None:
        """Delete the conversations that the principal owns, and then their names."""
        left = [AgentId(step.agent) for step in running.steps.values() if step.action == "delete" and not step.is_done]
        left += await self._owned(directory, running.erasure.principal)
        tried = set[AgentId]()
        while left:
            for agent in dict.fromkeys(left):
                known = (key for key, step in running.steps.items() if step.agent == agent and step.action == "delete")
                key = next(known, f"delete-{len(tried)}-{secrets.token_hex(4)}")
                step = ErasureStep(agent, "delete")
                await self._step(directory, running, key, step, self._deleting(directory, agent))
                tried.add(agent)
            # Again: one that changes while pages are read may be on none of them.
            left = [each for each in await self._owned(directory, running.erasure.principal) if each not in tried]

    def _deleting(self, directory: Directory, agent: AgentId) -> Callable[[ErasureStep], Awaitable[ErasureStep]]:
        async def delete(step: ErasureStep) -> ErasureStep:
            below = await directory.store.agents(children_prefix(agent))
            if await directory.store.has(agent):
                with suppress(AgentGone):
                    await self._agents().destroy(agent)
            await erasure_of(directory).rename_destroyed(agent, agent_id("erased", secrets.token_hex(12)))
            kind = agent.partition("/")[0]
            return replace(step, agent=kind, is_done=True, counts={"agents": 1 + len(below)}, problem=None)

        return delete

    async def _rewrite_others(self, directory: Directory, running: _Running) -> None:
        """Erase the principal from every family of agents of which one has a log that mentions it.

        What its agents know of the principal they may have told each other.
        """
        found = await self._mentioning(directory, running, set())
        rewritten = [step for step in running.steps.values() if step.action == "rewrite"]
        await self._rewrite_all(
            directory, running, {*found, *(step.agent for step in rewritten if not step.is_done or step.problem)}
        )
        tried = {root_id(agent) for agent in found}
        while found := await self._mentioning(directory, running, tried):  # forks that were made meanwhile
            await self._rewrite_all(directory, running, set(found))
            tried |= {root_id(agent) for agent in found}

    async def _mentioning(self, directory: Directory, running: _Running, tried: set[AgentId]) -> list[AgentId]:
        """Return the agents of the families that are to be rewritten, without those with these roots."""
        mentioning = await erasure_of(directory).mentioning(running.erasure.principal)
        left = {step.agent for step in running.steps.values() if step.action == "delete" and not step.is_done}
        found: list[AgentId] = []
        for root in sorted({root_id(agent) for agent in mentioning} - left - tried):
            found += [root, *await directory.store.agents(children_prefix(root))]
        return found

    async def _rewrite_all(self, directory: Directory, running: _Running, agents: set[str]) -> None:
        # All of them are noted first: once a log is rewritten, it does not say any more which family has to be done.
        new = [ErasureStep(agent, "rewrite") for agent in sorted(agents) if agent not in running.steps]
        await self._note_all(directory, running, new)
        for key, step in list(running.steps.items()):
            if step.action == "rewrite" and step.agent in agents:
                work = self._rewriting(directory, running, AgentId(step.agent))
                await self._step(directory, running, key, step, work)

    def _rewriting(
        self, directory: Directory, running: _Running, agent: AgentId
    ) -> Callable[[ErasureStep], Awaitable[ErasureStep]]:
        async def rewrite(step: ErasureStep) -> ErasureStep:
            if not await directory.store.has(agent):  # it was deleted since the step was noted
                return replace(step, is_done=True, problem=None, answered=[])
            target = dataclasses.replace(running.erasure.target, answered=frozenset(step.answered))
            erased = await self._agents().erase(agent, target)
            nouns = {*step.counts, *erased.counts}
            counts = {noun: step.counts.get(noun, 0) + erased.counts.get(noun, 0) for noun in sorted(nouns)}
            states = step.states + erased.states
            return replace(step, is_done=True, counts=counts, states=states, problem=erased.problem, answered=[])

        return rewrite

    async def _step(
        self,
        directory: Directory,
        running: _Running,
        key: str,
        first: ErasureStep,
        work: Callable[[ErasureStep], Awaitable[ErasureStep]],
    ) -> None:
        """Do one step, between two notes. What it raises is its problem; the others go on."""
        step = running.steps.get(key, first)
        await self._note(directory, running, key, step)
        try:
            step = await work(step)
        except AgentStopped as exc:
            if directory.is_closed or directory.is_stopping:
                raise
            gone = isinstance(exc, AgentGone)
            step = replace(step, is_done=gone, problem=None if gone else str(exc))
        except EverywordError as exc:
            log.error("unable to erase a principal from %r; %s", first.agent, exc)
            step = replace(step, problem=str(exc))
        await self._note(directory, running, key, step)

    async def _note_all(self, directory: Directory, running: _Running, steps: Sequence[ErasureStep]) -> None:
        running.steps.update({step.agent: step for step in steps})
        await erasure_of(directory).put_notes([_step_note(running.erasure, step.agent, step) for step in steps])

    async def _note(self, directory: Directory, running: _Running, key: str, step: ErasureStep) -> None:
        running.steps[key] = step
        await erasure_of(directory).put_notes([_step_note(running.erasure, key, step)])

    async def _stored(self) -> list[_Running]:
        found: dict[str, _Running] = {}
        for note in await erasure_of(self._running()).notes():
            if not note.key:
                found[note.erasure] = _Running(msgspec.json.decode(note.body, type=Erasure))
            elif note.erasure in found:
                found[note.erasure].steps[note.key] = msgspec.json.decode(note.body, type=ErasureStep)
        return [*found.values()]


def _note(erasure: Erasure) -> ErasureNote:
    return ErasureNote(erasure.alias, "", msgspec.json.encode(erasure))


def _step_note(erasure: Erasure, key: str, step: ErasureStep) -> ErasureNote:
    return ErasureNote(erasure.alias, key, msgspec.json.encode(step))
