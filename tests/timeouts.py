"""How long tests wait for a condition before they fail. No test waits for a time to pass."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["PATIENCE"]

PATIENCE: Final = float(os.environ.get("EVERYWORD_PATIENCE", "60"))
"""Seconds. Runs that expect a failure (`tests/mutants`) set a smaller value."""
