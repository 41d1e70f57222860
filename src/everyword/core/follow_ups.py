"""Events that the app's settings add to those of a command: an owner, a time to delete, jobs that tell the app."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from ..events import Chunk, ConversationChanged, Event, JobAdded, Outcome, TurnAccepted, TurnEnded, to_raw
from ..ids import JobId, Millis
from .conversations import TITLE_JOB, begins_conversation
from .evolve import APPROVAL_REQUEST
from .state import FollowUps, State

__all__ = ["NEWS_JOB", "follow_ups"]

NEWS_JOB: Final = "everyword.news"
"""The callback of the jobs that tell the app what happened."""

NEWS_ATTEMPTS: Final = 30
"""With the longest pause between two attempts, a receiver may be down for many hours."""


def follow_ups(state: State, events: list[Event], now: Millis, settings: FollowUps) -> list[Event]:
    """Return the events that follow; most commands have none."""
    added: list[Event] = []
    for event in events:
        match event:
            case TurnAccepted():
                added += _first_settings(state, event, settings)
            case TurnEnded():
                added += _after_turn(state, event, now, settings, state.last_job + len(added) + 1)
            case Chunk() if settings.has_news and APPROVAL_REQUEST in bytes(event.body):
                call = msgspec.json.decode(bytes(event.body)).get("toolCallId")
                about = {"event": "approval.requested", "turn": event.turn, "call": call}
                number = state.last_job + len(added) + 1
                added.append(_job(f"news-{event.turn}-{event.index}", NEWS_JOB, now, number, about))
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
    if settings.has_news:
        about = {"event": "turn.ended", "turn": ended.turn, "request": turn.request, "status": ended.outcome.value}
        jobs.append(_job(f"news-{ended.turn}", NEWS_JOB, now, number + len(jobs), about))
    return jobs


def _job(name: str, callback: str, now: Millis, number: int, payload: Any = None) -> JobAdded:
    attempts = NEWS_ATTEMPTS if callback == NEWS_JOB else 5
    return JobAdded(JobId(name), "once", callback, now, payload=to_raw(payload), max_attempts=attempts, number=number)
