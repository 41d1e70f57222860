"""The fixtures that users of the kit have."""

from __future__ import annotations

from holdfast.testing.plugin import holdfast_app, manual_clock

__all__ = ["holdfast_app", "manual_clock"]
