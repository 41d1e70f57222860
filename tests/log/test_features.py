"""Every kind of event is one that the first release with several nodes knows, or belongs to a feature (N-6)."""

from __future__ import annotations

from typing import get_args

from everyword.events import Event
from everyword.log.features import FEATURES, Feature, is_usable
from everyword.log.postgres.schema import VERSION

FIRST_KINDS = {
    *("agent.created", "agent.destroyed", "attempt.delayed", "attempt.interrupted", "attempt.started"),
    *("call.answered", "call.started", "chat.cleared", "chunk"),
    *("fiber.ended", "fiber.paused", "fiber.started", "fiber.stashed", "hook.done"),
    *("job.added", "job.ended", "job.started", "leaf.moved"),
    *("message.ended", "messages.put", "messages.removed", "messages.replaced"),
    *("run.ended", "run.started", "run.told", "state.set", "turn.accepted"),
    *("turn.cancel_requested", "turn.ended", "turn.retargeted"),
}


def test_a_new_kind_of_event_is_listed_as_a_feature() -> None:
    kinds = {event.__struct_config__.tag for event in get_args(Event)}
    assert kinds == FIRST_KINDS.union(*(feature.kinds for feature in FEATURES))
    assert all(feature.version <= VERSION for feature in FEATURES)


async def test_everything_is_usable_in_a_store_of_one_process() -> None:
    assert await is_usable(Feature("new", 1000), None)
