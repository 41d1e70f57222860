"""The settings of a directory."""

from __future__ import annotations

from dataclasses import dataclass, field

from .app_rules import AppRules
from .attachments import Attachments

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a directory behaves; times in milliseconds."""

    idle_after: int = 60_000
    """An agent that is not used for so long is unloaded."""
    retention: int = 24 * 60 * 60 * 1000
    """How long the chunks of ended turns are kept, and states that were replaced."""
    retention_every: int = 60_000
    store_check_every: int = 1_000
    """How often the store looks whether its files are still there."""
    retry_after: int = 1_000
    """How soon an agent whose append failed is loaded again; doubles up to `retry_at_most`."""
    retry_at_most: int = 30_000
    grace: float = 10.0
    """Seconds that running turns have to finish at shutdown."""
    app_rules: AppRules = field(default_factory=AppRules)
    attachments: Attachments | None = None
    """The attachments of the agents; None if there is no place for them."""
