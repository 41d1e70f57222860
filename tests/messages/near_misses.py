"""Parts that are nearly right: every legal shape, with each field left out or replaced by a value of another type."""

from __future__ import annotations

from typing import Any

from everyword.messages.message import Part
from tests.messages.test_part_schemas import ACCEPTED

__all__ = ["NEAR_MISSES"]

VALUES: list[Any] = [None, True, 5, "other", ["x"], {"id": 5, "approved": "yes"}]


def _near_misses() -> list[Part]:
    dynamic = [{**part, "type": "dynamic-tool", "toolName": "x"} for part in ACCEPTED if "toolCallId" in part]
    found: list[Part] = []
    for part in [*ACCEPTED, *dynamic]:
        for name in part:
            found.append({key: value for key, value in part.items() if key != name})
            found += [{**part, name: value} for value in VALUES if type(value) is not type(part[name])]
    return [part for place, part in enumerate(found) if part not in found[:place]]


NEAR_MISSES = _near_misses()
