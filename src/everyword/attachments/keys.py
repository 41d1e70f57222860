"""The keys of a blob store: one folder per conversation, one object per content.

A blob belongs to one root agent and those below it, and is not shared between conversations: no client learns from an
upload what others have uploaded, and erasing a conversation is deleting its folder.
"""

from __future__ import annotations

import hashlib
from typing import Final

from ..ids import AgentId, root_id

__all__ = ["AGENTS", "OWNER", "blob_key", "folder_of", "hash_in", "owner_key", "unused_in", "unused_key"]

AGENTS: Final = "agents"
OWNER: Final = "agent"
"""The object with the agent's id. The name of the folder is a hash of it, because agents may have any name."""

UNUSED: Final = ".unused"


def folder_of(agent: AgentId) -> str:
    """Return the folder of an agent's conversation: that of its root agent."""
    return f"{AGENTS}/{hashlib.sha256(root_id(agent).encode()).hexdigest()[:40]}"


def blob_key(agent: AgentId, sha256: str) -> str:
    """Return the key of a content of an agent's conversation."""
    return f"{folder_of(agent)}/{sha256}"


def owner_key(folder: str) -> str:
    """Return the key of the object with the id of the agent whose folder this is."""
    return f"{folder}/{OWNER}"


def unused_key(key: str) -> str:
    """Return the key of the empty object whose time says since when nothing refers to a content."""
    return f"{key}{UNUSED}"


def unused_in(key: str) -> str | None:
    """Return the key of the content that an object made with `unused_key` is about; None for other objects."""
    content = key.removesuffix(UNUSED)
    return content if content != key and hash_in(content) is not None else None


def hash_in(key: str) -> str | None:
    """Return the hash of the content with a key; None for other objects of the store."""
    name = key.rpartition("/")[2]
    is_hash = key.startswith(f"{AGENTS}/") and len(name) == 64 and all(each in "0123456789abcdef" for each in name)
    return name if is_hash else None
