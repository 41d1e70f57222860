"""The fixtures that users of the kit have."""

from __future__ import annotations

from everyword.testing.plugin import everyword_app, manual_clock

__all__ = ["everyword_app", "manual_clock"]
