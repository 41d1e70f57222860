"""Class names as path segments, by the rule that the stock client applies to its `agent` option."""

from __future__ import annotations

import re

__all__ = ["agent_kind", "kebab"]


def kebab(name: str) -> str:
    """Return the path segment of a class name: `ChatAgent` → `chat-agent`, `MyAIAgent` → `my-a-i-agent`."""
    if name.upper() == name and name.lower() != name:
        return name.lower().replace("_", "-")
    dashed = re.sub(r"[A-Z]", lambda letter: f"-{letter.group().lower()}", name).removeprefix("-")
    return dashed.replace("_", "-").removesuffix("-")


def agent_kind(cls: type) -> str:
    """Return the kind of agents of this class, the first half of their ids."""
    return kebab(cls.__name__)
