"""Play another release in this process: one that knows a newer version of the schema, or the present one."""

from __future__ import annotations

from typing import Final

from everyword.log.features import Feature
from everyword.log.postgres import node_lease, schema

__all__ = ["FEATURE", "NEW", "OLD", "play_release"]

OLD: Final = schema.VERSION
"""The version of the present release."""

NEW: Final = OLD + 1
"""The version of a release that is yet to come."""

FEATURE: Final = Feature("states", NEW, frozenset({"state.set"}))
"""What only the new release writes. The kind exists, but nothing else writes it in these tests."""

_SCRIPTS: Final = tuple(schema.SCRIPTS)
_ADDED: Final = "alter table everyword.turn add note text; create index turn_note on everyword.turn (note);"


def play_release(version: int) -> None:
    """From now on, open stores as the release with this version does: OLD or NEW."""
    added = [schema.Script(NEW, _ADDED)] if version == NEW else []
    schema.SCRIPTS[:] = [*_SCRIPTS, *added]
    for module in (schema, node_lease):
        module.VERSION = version  # type: ignore[misc]
