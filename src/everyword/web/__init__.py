"""A page to talk to agents with: plain files, no build step, nothing from elsewhere."""

from __future__ import annotations

from .page import Page

__all__ = ["Page"]
