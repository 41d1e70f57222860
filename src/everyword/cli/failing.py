"""An app whose own code fails: told apart from our refusals, and light enough to be imported by every command."""

from __future__ import annotations

__all__ = ["BrokenApp"]


class BrokenApp(Exception):
    """An application that cannot be imported; the text is the traceback of its own code."""
