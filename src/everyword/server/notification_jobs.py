"""The durable jobs behind notifications.

An event adds the first job in its own commit (`core/follow_ups.py`). When it is due, that job looks at who is
connected, writes the notification, and adds one job per receiver: a receiver that is down does not repeat the others.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

import msgspec

from ..agents import Agent, Approval, Conversation, Participant, agent_kind
from ..agents.handles.approvals import approval_of
from ..core.follow_ups import NOTIFICATION_JOB
from ..errors import JobNotDone, Rejected, UsageError
from ..ids import AgentId, CallId, JobId, TurnId, root_id, split_agent_id
from ..rows import ApprovalRecord
from ..runtime.api import JobCall
from ..runtime.api.lists import ListedApproval
from .notification import ApprovalNotice, Notification, NotificationType, notification_json, notification_of
from .notifications import NotificationOptions
from .webhooks import Answer, Webhook, WebhookSender

__all__ = ["DELIVERY_JOB", "NotificationJobs", "pause_after"]

DELIVERY_JOB: Final = "everyword.delivery"
"""The callback of the jobs that deliver to one receiver."""

HOOK: Final = "notify"
"""The name of the receiver that is the app's own function."""

FIRST_PAUSE: Final = 5_000
LONGEST_PAUSE: Final = 60 * 60 * 1000
ATTEMPTS: Final = 80
"""Attempts of a delivery: 85 minutes of growing pauses, and then every hour for almost three days."""

DOUBTFUL_ATTEMPTS: Final = 12
"""Attempts if the receiver refuses, or if this process does not know it. In a deploy both may pass. Over 2 hours."""

RETRIED: Final = frozenset({408, 425, 429})
"""Statuses of refusals that ask to try again."""

GONE: Final = 410

HOOK_PATIENCE: Final = 60.0
"""Time limit of the app's own function, in seconds."""

LONGEST_TITLE: Final = 200
LONGEST_TEXT: Final = 200
LONGEST_SUMMARY: Final = 500
MOST_PEOPLE: Final = 50

RunJob = Callable[[Agent[Any], JobCall], Awaitable[None]]


class _Event(msgspec.Struct):
    """The payload of the first job: the event."""

    type: NotificationType
    turn: TurnId
    request: str
    at: int
    status: Literal["completed", "error", "aborted"] | None = None
    call: CallId | None = None


def pause_after(attempt: int) -> int:
    """Return the milliseconds between this attempt of a delivery and the next one."""
    return int(min(FIRST_PAUSE * 2 ** (attempt - 1), LONGEST_PAUSE))


class NotificationJobs:
    """Runs the jobs of notifications, for one app."""

    def __init__(self, options: NotificationOptions | None) -> None:
        self._options = options
        self._sender = WebhookSender()
        self.by_callback: Mapping[str, RunJob] = {NOTIFICATION_JOB: self._announce, DELIVERY_JOB: self._deliver}

    def open(self) -> None:
        """Get ready to send.

        Raises:
            UsageError: a package is missing.
        """
        if self._options is not None and self._options.webhooks:
            self._sender.open()

    async def aclose(self) -> None:
        """Close connections to receivers."""
        await self._sender.aclose()

    # -- the first job: decide and write -----------------------------------------------------------------------------

    async def _announce(self, agent: Agent[Any], call: JobCall) -> None:
        """Add a job for each receiver, unless a principal is connected."""
        options = self._options
        if options is None:
            raise _not_known_here(call, "this app has no notifications")
        conversation = agent._runtime.conversation
        if call.run == 1 and (left := options.delay_millis - conversation.loaded_for()) > 0:
            # The agent was loaded a moment ago, perhaps by the start of this process: clients are still on their way.
            raise JobNotDone("unable to see who watches yet; clients may be connecting", left, is_postponed=True)
        event = msgspec.convert(call.payload, _Event)
        record = await conversation.waiting(event.turn, event.call) if event.call is not None else None
        if event.type == "approval.requested" and record is None:
            return  # it was answered meanwhile
        watchers = conversation.watchers()
        if watchers and not options.even_if_watched:
            return
        notification = await self._written(agent, call, event, record, watchers)
        for receiver in _receivers(options, event.type):
            await _add_delivery(agent, receiver, notification)

    async def _written(
        self,
        agent: Agent[Any],
        call: JobCall,
        event: _Event,
        record: ApprovalRecord | None,
        watchers: list[Participant],
    ) -> Notification:
        assert self._options is not None
        options, asking = self._options, agent._runtime.agent
        kind, name = _address(agent, asking)
        known = await agent.app.conversations.get(kind, name)
        preview = None
        if options.include_texts and event.type == "turn.ended":
            preview = _cut(await agent._runtime.conversation.newest_text(event.turn), LONGEST_TEXT)
        notice = None
        if record is not None:
            owner = known.owner if known is not None else None
            approval = approval_of(ListedApproval(asking, record.call, record, owner), kind, name)
            notice = _notice(approval, options)
        return Notification(
            id=_id(asking, call.id, event.at),
            type=event.type,
            at=event.at / 1000,
            kind=kind,
            name=name,
            request=event.request,
            title=_title(known) if options.include_texts else None,
            owner=known.owner if known is not None else None,
            participants=known.participants[:MOST_PEOPLE] if known is not None else (),
            connected=watchers[:MOST_PEOPLE],
            status=event.status,
            preview=preview,
            approval=notice,
        )

    # -- the second job: deliver -------------------------------------------------------------------------------------

    async def _deliver(self, agent: Agent[Any], call: JobCall) -> None:
        """Deliver to one receiver."""
        options, receiver = self._options, call.payload["receiver"]
        notification: dict[str, Any] = call.payload["notification"]
        if receiver == HOOK:
            hook = options.notify if options is not None else None
            if hook is None:
                raise _not_known_here(call, "this app has no function `notify`")
            await _call_hook(hook, call, notification_of(notification))
            return
        name = receiver.removeprefix("webhook:")
        webhooks = options.webhooks if options is not None else ()
        webhook = next((each for each in webhooks if each.name == name), None)
        if webhook is None:
            raise _not_known_here(call, f"this app has no webhook named {name!r}")
        jobs, body = agent._runtime.jobs, msgspec.json.encode(notification)
        answer = await self._sender.post(webhook, notification["id"], lambda: jobs.now() // 1000, body)
        _judge(answer, webhook, call)


def _receivers(options: NotificationOptions, type: NotificationType) -> list[str]:
    webhooks = [f"webhook:{each.name}" for each in options.webhooks if type in each.events]
    return [*webhooks, HOOK] if options.notify is not None else webhooks


async def _add_delivery(agent: Agent[Any], receiver: str, notification: Notification) -> None:
    job = JobId(f"{notification.id}-{hashlib.sha256(receiver.encode()).hexdigest()[:8]}")
    payload = {"receiver": receiver, "notification": notification_json(notification)}
    jobs = agent._runtime.jobs
    try:
        await jobs.add(job, "once", DELIVERY_JOB, jobs.now(), payload, max_attempts=ATTEMPTS)
    except Rejected:
        if not any(each.id == job for each in await jobs.all()):
            raise  # else: a run of the same job that was cut off has added it


async def _call_hook(
    hook: Callable[[Notification], Awaitable[None]], call: JobCall, notification: Notification
) -> None:
    try:
        async with asyncio.timeout(HOOK_PATIENCE):
            await hook(notification)
    except Exception as exc:
        text = f"unable to notify; the function `notify` raised {type(exc).__name__}"
        raise JobNotDone(text, pause_after(call.attempt)) from exc


def _judge(answer: Answer, webhook: Webhook, call: JobCall) -> None:
    """Raise unless the receiver has taken the notification."""
    status, pause = answer.status, pause_after(call.attempt)
    about = f"unable to deliver to the webhook {webhook.name!r}"
    if status is None:
        raise JobNotDone(f"{about}; {answer.problem}", pause)
    if 200 <= status < 300:
        return
    text = f"{about}; it answered {status}"
    if status == GONE:
        raise JobNotDone(f"{text}, which means that it wants no more. Remove it from the settings.")
    if status >= 500 or status in RETRIED:
        asked = min(answer.retry_after or 0, LONGEST_PAUSE)
        raise JobNotDone(text, max(pause, asked))
    text += ", and redirects are not followed" if 300 <= status < 400 else ""
    raise JobNotDone(text, pause if call.attempt < DOUBTFUL_ATTEMPTS else None)


def _not_known_here(call: JobCall, why: str) -> JobNotDone:
    """Return the error of a job that another release of the app has added, or that the settings have lost."""
    again = pause_after(call.attempt) if call.attempt < DOUBTFUL_ATTEMPTS else None
    return JobNotDone(f"unable to notify; {why}", again)


# -- the parts of a notification ---------------------------------------------------------------------------------------


def _address(agent: Agent[Any], asking: AgentId) -> tuple[str, str]:
    kind, name = split_agent_id(root_id(asking))
    cls = agent.app.class_of_kind(kind)
    if cls is None:
        raise UsageError(f"unable to notify; no class of kind {kind!r} is served here")
    return agent_kind(cls), name


def _id(agent: AgentId, job: JobId, at: int) -> str:
    """Return the id of a notification: the same in every run, and another one for another event.

    A conversation that was deleted and begun again counts its turns from 1 again; the time tells them apart.
    """
    digest = hashlib.sha256("\0".join((agent, job, str(at))).encode()).hexdigest()
    return f"msg_{digest[:32]}"


def _title(known: Conversation | None) -> str | None:
    return (_cut(known.title, LONGEST_TITLE) or None) if known is not None else None


def _notice(approval: Approval, options: NotificationOptions) -> ApprovalNotice:
    texts = options.include_texts
    return ApprovalNotice(
        id=approval.id,
        tool=_cut(approval.tool, LONGEST_TEXT),
        summary=_cut(approval.summary, LONGEST_SUMMARY) if texts and approval.summary is not None else None,
        risk=_cut(approval.risk, LONGEST_TEXT) if approval.risk is not None else None,
        expires_at=approval.expires_at,
        url=options.approval_url(approval.id),
    )


def _cut(text: str, most: int) -> str:
    text = " ".join(text[: most * 8].split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
