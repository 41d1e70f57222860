"""Events that the app's settings add to those of a command: an owner, a time to delete, jobs that tell the app."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from ..events import (
    Chunk,
    ConversationChanged,
    Event,
    JobAdded,
    MessagesPut,
    Outcome,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    to_raw,
)
from ..ids import JobId, Millis, TurnId
from .conversations import TITLE_JOB, begins_conversation
from .evolve import APPROVAL_REQUEST
from .state import FollowUps, JobState, State

__all__ = ["NOTIFICATION_JOB", "follow_ups"]

NOTIFICATION_JOB: Final = "everyword.notification"
"""The callback of the jobs that decide whether a notification is sent, and to which receivers."""

NOTIFICATION_ATTEMPTS: Final = 30


def follow_ups(state: State, events: list[Event], now: Millis, settings: FollowUps) -> list[Event]:
    """Return the events that follow; most commands have none."""
    added: list[Event] = []
    for event in events:
        match event:
            case TurnAccepted() | MessagesPut():
                added += _first_settings(state, event, events, settings)
            case TurnEnded():
                added += _after_turn(state, event, now, settings, state.last_job + len(added) + 1)
            case Chunk() if settings.notifies_approvals and APPROVAL_REQUEST in bytes(event.body):
                added += _after_request(state, event, now, settings, state.last_job + len(added) + 1)
            case _:
                pass
    return added


def _first_settings(
    state: State, event: TurnAccepted | MessagesPut, events: list[Event], settings: FollowUps
) -> list[Event]:
    """Return what the settings say about a conversation that begins, or that a principal asks first."""
    if not _belongs(event):
        return []
    keep_for: int | UnsetType = UNSET
    if state.conversation is None and settings.keep_for is not None and next(filter(_belongs, events)) is event:
        keep_for = settings.keep_for
    owner = _first_owner(state, event, settings)
    return [] if owner is UNSET and keep_for is UNSET else [ConversationChanged(owner=owner, keep_for=keep_for)]


def _belongs(event: Event) -> bool:
    """Return whether an event brings messages of the conversation."""
    return isinstance(event, MessagesPut) or (isinstance(event, TurnAccepted) and begins_conversation(event))


def _first_owner(state: State, event: Event, settings: FollowUps) -> str | UnsetType | None:
    known = state.conversation
    if known is not None and (known.owner is not None or known.former_owner is not None):
        return UNSET
    if settings.owner_of is None or not isinstance(event, TurnAccepted):
        return UNSET
    who = event.principal if event.kind is TurnKind.CHAT else None
    chosen = settings.owner_of(who) if who is not None else UNSET
    return UNSET if who is None or chosen == who.id else chosen


def _after_turn(state: State, ended: TurnEnded, now: Millis, settings: FollowUps, number: int) -> list[Event]:
    turn = state.find(ended.turn)
    if turn is None or not turn.accepted.kind.is_chat or ended.outcome is Outcome.SKIPPED:
        return []
    jobs: list[Event] = []
    known = state.conversation
    wants_title = settings.has_titles and ended.outcome is Outcome.COMPLETED
    if wants_title and known is not None and known.title is None and not known.has_asked_title:
        jobs.append(_job(f"title-{ended.turn}", TITLE_JOB, now, number, state.generation))
    if settings.notifies_turns and not _waits_for_approval(state, ended.turn):
        about = {"type": "turn.ended", "turn": ended.turn, "request": turn.request, "status": ended.outcome.value}
        jobs.append(_notification(f"notification-{ended.turn}", now, settings, number + len(jobs), about))
    return jobs


def _waits_for_approval(state: State, turn: TurnId) -> bool:
    """Return whether a turn ends because one of its calls waits: that request has a notification already."""
    return any(each.turn == turn and each.status == "waiting" for each in state.waiting.values())


def _after_request(state: State, event: Chunk, now: Millis, settings: FollowUps, number: int) -> list[Event]:
    chunk = msgspec.json.decode(bytes(event.body))
    turn = state.find(event.turn)
    if chunk.get("type") != "tool-approval-request" or turn is None:
        return []
    call = chunk.get("toolCallId")
    if any(job.due > now and _is_about(job, event.turn, call) for job in state.jobs.values()):
        return []  # an attempt before this one asked for the same call, and nobody was told yet
    about = {"type": "approval.requested", "turn": event.turn, "request": turn.request, "call": call}
    return [_notification(f"notification-{event.turn}-{event.index}", now, settings, number, about)]


def _is_about(job: JobState, turn: TurnId, call: object) -> bool:
    """Return whether a job is the one that notifies of a request for this call."""
    if job.added.callback != NOTIFICATION_JOB:
        return False
    about = msgspec.json.decode(bytes(job.added.payload))
    return isinstance(about, dict) and (about.get("turn"), about.get("call")) == (turn, call)


def _notification(name: str, now: Millis, settings: FollowUps, number: int, about: dict[str, Any]) -> JobAdded:
    due = Millis(now + settings.notification_delay)
    return _job(name, NOTIFICATION_JOB, due, number, {**about, "at": now}, NOTIFICATION_ATTEMPTS)


def _job(name: str, callback: str, due: Millis, number: int, payload: Any = None, attempts: int = 5) -> JobAdded:
    return JobAdded(JobId(name), "once", callback, due, payload=to_raw(payload), max_attempts=attempts, number=number)
