"""The settings of an app for its conversations: owners, titles, retention, search."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from ..agents import AIChatAgent
from ..core.conversations import TITLE_JOB
from ..errors import UsageError
from ..events import Identity
from ..ids import AgentId, split_agent_id
from ..messages.message import UIMessage
from ..principals import Principal
from ..runtime.api import JobCall
from ..runtime.app_rules import AppRules

__all__ = ["ConversationOptions", "OwnJobs"]

LONGEST_TITLE: Final = 200


@dataclass(frozen=True, slots=True)
class ConversationOptions:
    """Settings for the conversations of an app: `Everyword(..., conversations=ConversationOptions(...))`.

    Args:
        owner: Returns the owner of a conversation that a principal begins, from the principal, the kind and the name of
            the agent: a principal, its id, or None for no owner. By default the principal that asks first is the owner.
        title: Returns a title for a conversation, from its messages; usually a model writes it. It is called once,
            after the first answer, as a durable job: it is tried again after a failure or a crash. A title that a
            person gives wins. By default the title is the beginning of the first question.
        search: Index titles and messages, so that `app.conversations.list(query=…)` and `GET /conversations?query=…`
            find conversations by their words. Conversations from before are indexed with their next message, or by
            `everyword rebuild --search on`. By default nothing is indexed.
        keep_for: New conversations are deleted when nothing has happened in them for this long; by default never.
    """

    owner: Callable[[Principal, str, str], Principal | str | None] | None = None
    title: Callable[[Sequence[UIMessage]], Awaitable[str | None] | str | None] | None = None
    keep_for: timedelta | None = None
    search: bool = False

    def __post_init__(self) -> None:
        if self.keep_for is not None and self.keep_for <= timedelta(0):
            raise UsageError(f"unable to keep conversations for {self.keep_for}; give a positive time, or None")

    def rules(self, max_queued: int) -> AppRules:
        """Return what the runtime needs of these settings."""
        return AppRules(
            max_queued=max_queued,
            owner_of=self._owner_of if self.owner is not None else None,
            keep_for=None if self.keep_for is None else round(self.keep_for.total_seconds() * 1000),
            has_titles=self.title is not None,
            has_search=self.search,
        )

    def _owner_of(self, agent: AgentId, identity: Identity) -> str | None:
        assert self.owner is not None
        chosen: object = self.owner(Principal.of(identity), *split_agent_id(agent))
        if chosen is not None and not isinstance(chosen, Principal | str):
            if inspect.iscoroutine(chosen):
                chosen.close()  # or Python warns that it was never awaited
            raise UsageError(
                f"unable to use {type(chosen).__name__} as an owner; ConversationOptions.owner must be a function, "
                "not async, that returns a principal, its id, or None"
            )
        return Principal(chosen).id if isinstance(chosen, str) else chosen.id if chosen is not None else None


class OwnJobs:
    """Runs the jobs that the settings of an app lead to."""

    def __init__(
        self, options: ConversationOptions, more: Mapping[str, Callable[[Any, JobCall], Awaitable[None]]]
    ) -> None:
        self._options = options
        self._jobs: dict[str, Callable[[Any, JobCall], Awaitable[None]]] = {TITLE_JOB: self._give_title, **more}

    async def run(self, agent: Any, call: JobCall) -> None:
        """Run one job.

        Raises:
            UsageError: this release, or this app's settings, do not know the job.
        """
        job = self._jobs.get(call.callback)
        if job is None:
            raise UsageError(f"unable to run the job {call.callback!r}; this release does not know it")
        await job(agent, call)

    async def _give_title(self, agent: Any, call: JobCall) -> None:
        if self._options.title is None or not isinstance(agent, AIChatAgent):
            return  # the app has no titles of its own any more
        given = self._options.title(agent.messages)
        title = await given if inspect.isawaitable(given) else given
        text = " ".join(str(title).split())[:LONGEST_TITLE] if title is not None else ""
        text = text.encode(errors="replace").decode()  # half of an emoji, for instance, cannot be stored
        if text:
            await agent._runtime.conversation.change(title=text, titled_by="model", generation=call.payload)
