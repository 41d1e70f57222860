"""What the log says of an exception: its text with the notes, and whether its traceback tells anything."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Final

__all__ = ["full_text", "has_outside_frames"]

_PACKAGE: Final = __file__.removesuffix("traces.py")


def full_text(exc: BaseException) -> str:
    """Return an exception's text and its notes, which say what is not for clients."""
    return " | ".join([str(exc), *getattr(exc, "__notes__", ())])


def has_outside_frames(exc: BaseException) -> bool:
    """Tell whether an exception passed through code that is not everyword's; else its traceback helps nobody."""
    return any(not filename.startswith(_PACKAGE) for filename in _filenames(exc))


def _filenames(exc: BaseException) -> Iterator[str]:
    for frame, _ in traceback.walk_tb(exc.__traceback__):
        yield frame.f_code.co_filename
