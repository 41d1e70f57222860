"""What a seeded bug is."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """A bug to plant: one replacement in one file below src/everyword, where `old` must occur exactly once.

    `witness` is the node id of the test that must fail, `why` says what would go wrong.
    """

    path: str
    old: str
    new: str
    witness: str
    why: str

    @property
    def name(self) -> str:
        return re.sub(r"\W+", "-", self.why.lower()).strip("-")
