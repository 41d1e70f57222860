"""What the app that is killed and those who check it have in common."""

from __future__ import annotations

from typing import Final

__all__ = ["NEVER", "STEPS"]

STEPS: Final = 5
"""Steps of a fiber, each with a checkpoint behind it."""
NEVER: Final = "never"
"""The name of an agent about which `authorize` is asked and does not answer."""
