"""The optional packages, and the error for a missing one."""

from __future__ import annotations

import sys
from typing import Final

from .errors import UsageError

__all__ = ["PACKAGES", "missing"]

PACKAGES: Final[dict[str, tuple[str, ...]]] = {
    "anthropic": ("anthropic",),
    "client": ("httpx", "websockets"),
    "objects": ("obstore",),
    "openai": ("openai",),
    "otel": ("opentelemetry-api",),
    "postgres": ("asyncpg",),
    "prometheus": ("prometheus-client",),
    "pydantic-ai": ("pydantic-ai-slim",),
    "server": (
        *("uvicorn", "websockets", "httptools", "rich", "watchfiles"),
        *(() if sys.platform == "win32" else ("uvloop",)),
    ),
    "webhooks": ("httpx",),
}
"""Extra → its packages, as in pyproject.toml. everyword itself is left out, so that the install command works however
it was installed."""


def missing(package: str, extra: str, task: str) -> UsageError:
    """Return the error for a task that needs a missing package of an extra."""
    command = f"pip install {' '.join(PACKAGES[extra])}"
    return UsageError(f"unable to {task}; {package} is missing. Install what the extra {extra!r} needs: {command}")
