"""The agent's state as one client knows it, with changes of its own that the server may still refuse."""

from __future__ import annotations

from typing import Any

__all__ = ["AgentState"]


class AgentState:
    """The newest state. Changes of this client take effect at once, and are undone if the server refuses them."""

    def __init__(self) -> None:
        self.value: Any = None
        self.is_known = False
        """False before there is a state."""
        self.version = 0
        """Grows with every replacement, by any client."""
        self.refusals: dict[str, str] = {}
        """Refused changes and the reasons."""
        self._unconfirmed: dict[str, tuple[bool, Any]] = {}
        """Changes of this client, oldest first → `is_known` and `value` before them."""

    def change(self, change: str, value: Any) -> None:
        """Replace the state by a change of this client, which `confirm` or `refuse` settles."""
        self._unconfirmed[change] = (self.is_known, self.value)
        self.replace(value)

    def replace(self, value: Any) -> None:
        self.value, self.is_known = value, True
        self.version += 1

    def confirm(self, change: str) -> None:
        self._unconfirmed.pop(change, None)

    def refuse(self, reason: str) -> None:
        """Refuse the oldest unconfirmed change: the server answers in order, and does not name the change."""
        change = next(iter(self._unconfirmed), None)
        if change is None:
            return
        self.refusals[change] = reason
        was_known, before = self._unconfirmed.pop(change)
        if not self._unconfirmed:
            self.replace(before)
            self.is_known = was_known
