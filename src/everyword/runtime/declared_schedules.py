"""Schedules that an agent's class declares: brought into its log when it is loaded, before anything of it runs."""

from __future__ import annotations

import logging
import secrets
from typing import assert_never

from ..core.commands import AddJob, DeclareJobs
from ..core.state import State
from ..cron import next_of_cron
from ..errors import EverywordError
from ..events import to_raw
from ..ids import JobId, Millis
from ..messages.json_values import plain_json
from .actor import Actor
from .api import DeclaredJob, DeclaresJobs

__all__ = ["reconcile_declared"]

log = logging.getLogger("everyword.runtime")


async def reconcile_declared(actor: Actor, state: State, responder: object, now: Millis) -> None:
    """Let the agent's declared schedules be those of its class, in one commit; none when nothing has changed (R-33).

    `state` is what was loaded: nothing has written since. If it cannot be done, the agent is used all the same, and the
    next start tries again.
    """
    declared = responder.declared_jobs if isinstance(responder, DeclaresJobs) else ()
    if not declared and not any(job.added.is_declared for job in state.jobs.values()):
        return
    try:
        await actor.ask(DeclareJobs([_command(each, now) for each in declared]))
    except EverywordError:
        log.exception("unable to schedule what the class of %r declares; it is used all the same", actor.agent)


def _command(declared: DeclaredJob, now: Millis) -> AddJob:
    job = JobId(secrets.token_urlsafe(9))
    payload = to_raw(plain_json(declared.payload))
    match declared.kind:
        case "cron":
            due = next_of_cron(declared.rule, declared.zone or "UTC", now)
        case "every":
            due = Millis(now + int(declared.rule))
        case _:
            assert_never(declared.kind)
    return AddJob(
        job, declared.kind, declared.callback, due, payload, declared.rule, declared.zone, declared.max_attempts
    )
