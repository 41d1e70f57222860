"""The public names are pinned: growing or shrinking them is a visible change of this file."""

from __future__ import annotations

import importlib
import json

import pytest

from tests.architecture.tree import read_source

# package → its `__all__`, sorted. A package without `__all__` promises nothing and is not listed.
PUBLIC: dict[str, list[str]] = {
    "holdfast": [
        *(
            "AIChatAgent",
            "Agent",
            "ChatError",
            "Connecting",
            "Debounce",
            "Holdfast",
        ),
        *(
            "HoldfastError",
            "LifecycleTracker",
            "Limits",
            "Principal",
            "Reject",
            "ResumableStream",
        ),
        *(
            "SaveMessagesResult",
            "Turn",
            "UIMessage",
            "__version__",
            "create_lifecycle_tracker",
        ),
    ],
    "holdfast.agents": [
        *(
            "AIChatAgent",
            "Agent",
            "ChatResponder",
            "Debounce",
            "SaveMessagesResult",
            "Turn",
        ),
        *(
            "agent_kind",
            "kebab",
            "responder_for",
        ),
    ],
    "holdfast.errors": [
        *(
            "AgentStopped",
            "BadChunk",
            "BadInput",
            "BadMessage",
            "ChatError",
            "Fenced",
        ),
        *(
            "FoldError",
            "HoldfastError",
            "LogCorrupt",
            "LogError",
            "LogLocked",
            "LogTooNew",
        ),
        *(
            "LogUnavailable",
            "MailboxFull",
            "Rejected",
            "StaleAttempt",
            "TooManyQueued",
            "UnknownTurn",
        ),
        *("UsageError",),
    ],
    "holdfast.server": [
        *(
            "Connecting",
            "Holdfast",
            "Limits",
            "Principal",
            "Reject",
        ),
    ],
    "holdfast.testing": [
        *(
            "CrashingLog",
            "Gate",
            "ManualClock",
            "ScriptedResponder",
        ),
    ],
    "holdfast.web": [
        *("Page",),
    ],
}

# Modules that users import from although they are no packages.
MODULES = {"errors"}


def packages() -> list[str]:
    """Return every package, and the modules that count as one."""
    names = [module.name for module in read_source() if module.is_package or module.name in MODULES]
    return ["holdfast" if name == "__init__" else f"holdfast.{name}" for name in names]


def actual() -> dict[str, list[str]]:
    exported = {name: getattr(importlib.import_module(name), "__all__", None) for name in packages()}
    return {name: sorted(names) for name, names in exported.items() if names is not None}


def test_public_names_are_the_pinned_ones() -> None:
    found = actual()
    assert found == PUBLIC, f"if this is meant, pin:\nPUBLIC = {json.dumps(found, indent=4)}"


@pytest.mark.parametrize("package", packages())
def test_every_public_name_exists(package: str) -> None:
    module = importlib.import_module(package)
    names = getattr(module, "__all__", [])
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(names) == len(set(names))
