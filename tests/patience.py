"""How long tests wait for a fact before they say that it never came. Never what a test waits for."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["PATIENCE"]

PATIENCE: Final = float(os.environ.get("EVERYWORD_PATIENCE", "60"))
"""Seconds. Runs that expect to fail (`tests/mutants`) have less of it."""
