"""Events that the app's settings add to those of a command: an owner, a time to delete, jobs that tell the app."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from ..events import Chunk, ConversationChanged, Event, JobAdded, Outcome, TurnAccepted, TurnEnded, to_raw
from ..ids import JobId, Millis, TurnId
from .conversations import TITLE_JOB, begins_conversation
from .evolve import APPROVAL_REQUEST
from .state import FollowUps, State

__all__ = ["NOTIFICATION_JOB", "follow_ups"]

NOTIFICATION_JOB: Final = "everyword.notification"
"""The callback of the jobs that decide whether an event is told, and to which receivers."""

NOTIFICATION_ATTEMPTS: Final = 30


def follow_ups(state: State, events: list[Event], now: Millis, settings: FollowUps) -> list[Event]:
    """Return the events that follow; most commands have none."""
    added: list[Event] = []
    for event in events:
        match event:
            case TurnAccepted():
                added += _first_settings(state, event, settings)
            case TurnEnded():
                added += _after_turn(state, event, now, settings, state.last_job + len(added) + 1)
            case Chunk() if settings.notifies_approvals and APPROVAL_REQUEST in bytes(event.body):
                added += _after_request(state, event, now, settings, state.last_job + len(added) + 1)
            case _:
                pass
    return added


def _first_settings(state: State, accepted: TurnAccepted, settings: FollowUps) -> list[Event]:
    """Return what the settings say about a conversation that begins with this turn."""
    if state.conversation is not None or not begins_conversation(accepted):
        return []
    owner: str | UnsetType | None = UNSET
    if settings.owner_of is not None and accepted.principal is not None:
        chosen = settings.owner_of(accepted.principal)
        owner = chosen if chosen != accepted.principal.id else UNSET
    keep_for: int | UnsetType = settings.keep_for if settings.keep_for is not None else UNSET
    return [] if owner is UNSET and keep_for is UNSET else [ConversationChanged(owner=owner, keep_for=keep_for)]


def _after_turn(state: State, ended: TurnEnded, now: Millis, settings: FollowUps, number: int) -> list[Event]:
    turn = state.find(ended.turn)
    if turn is None or not turn.accepted.kind.is_chat or ended.outcome is Outcome.SKIPPED:
        return []
    jobs: list[Event] = []
    known = state.conversation
    wants_title = settings.has_titles and ended.outcome is Outcome.COMPLETED
    if wants_title and known is not None and known.title is None and not known.has_asked_title:
        jobs.append(_job(f"title-{ended.turn}", TITLE_JOB, now, number))
    if settings.notifies_turns and not _waits_for_approval(state, ended.turn):
        about = {"type": "turn.ended", "turn": ended.turn, "request": turn.request, "status": ended.outcome.value}
        jobs.append(_notification(f"notification-{ended.turn}", now, settings, number + len(jobs), about))
    return jobs


def _waits_for_approval(state: State, turn: TurnId) -> bool:
    """Tell whether a turn ends because a call of it waits: the request for the approval is told already."""
    return any(each.turn == turn and each.status == "waiting" for each in state.waiting.values())


def _after_request(state: State, event: Chunk, now: Millis, settings: FollowUps, number: int) -> list[Event]:
    chunk = msgspec.json.decode(bytes(event.body))
    turn = state.find(event.turn)
    if chunk.get("type") != "tool-approval-request" or turn is None:
        return []
    call = chunk.get("toolCallId")
    about = {"type": "approval.requested", "turn": event.turn, "request": turn.request, "call": call}
    return [_notification(f"notification-{event.turn}-{event.index}", now, settings, number, about)]


def _notification(name: str, now: Millis, settings: FollowUps, number: int, about: dict[str, Any]) -> JobAdded:
    due = Millis(now + settings.notification_delay)
    return _job(name, NOTIFICATION_JOB, due, number, {**about, "at": now}, NOTIFICATION_ATTEMPTS)


def _job(name: str, callback: str, due: Millis, number: int, payload: Any = None, attempts: int = 5) -> JobAdded:
    return JobAdded(JobId(name), "once", callback, due, payload=to_raw(payload), max_attempts=attempts, number=number)
