"""What a seeded bug is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.mutants.changes import Change
from tests.mutants.places import SqlChange

__all__ = ["Bug"]


@dataclass(frozen=True)
class Bug:
    """A bug to put into a copy of the source."""

    where: str
    """The definition that is changed, named as in `tests.mutants.places`: `Actor._appended`, `core:_finish`."""

    breaks: str
    """What it breaks: an invariant or a rule of docs/rules.md by number, or a short phrase."""

    change: Change | SqlChange

    witness: str
    """The node id of the test that must fail."""

    why: str
    """What would go wrong."""

    @property
    def name(self) -> str:
        return f"{self.where}-{re.sub(r'[^a-z0-9]+', '-', self.why.lower()).strip('-')}"
