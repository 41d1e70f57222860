"""Tracebacks: which of their frames are everyword's own."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Final

__all__ = ["has_outside_frames"]

_PACKAGE: Final = __file__.removesuffix("traces.py")


def has_outside_frames(exc: BaseException) -> bool:
    """Tell whether an exception passed through code that is not everyword's; else its traceback helps nobody."""
    return any(not filename.startswith(_PACKAGE) for filename in _filenames(exc))


def _filenames(exc: BaseException) -> Iterator[str]:
    for frame, _ in traceback.walk_tb(exc.__traceback__):
        yield frame.f_code.co_filename
