"""A wake-up that is answered on the spot where it can be, and by a task only where it has to wait for something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Nudge"]


class Nudge(asyncio.Event):
    """An event whose waiting task may leave somebody at its place.

    While the task waits it sets `at_once`; a nudge then calls that, and wakes the task only if it says False. To wake
    a task, let it look what there is, and put it to sleep again costs several times what a token does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.at_once: Callable[[], bool] | None = None

    def set(self) -> None:
        if self.at_once is None or not self.at_once():
            super().set()
