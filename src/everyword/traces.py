"""What the log says of an exception: its text with the notes, and whether its traceback tells anything."""

from __future__ import annotations

import importlib
import traceback
from typing import Final

__all__ = ["full_text", "has_outside_frames", "outside_traceback"]

_OURS: Final = (__file__.removesuffix("traces.py"), "<frozen importlib", importlib.__file__)


def full_text(exc: BaseException) -> str:
    """Return an exception's text and its notes, which say what is not for clients."""
    return " | ".join([str(exc), *getattr(exc, "__notes__", ())])


def has_outside_frames(exc: BaseException) -> bool:
    """Tell whether an exception passed through code that is not everyword's; else its traceback helps nobody."""
    walked = traceback.walk_tb(exc.__traceback__)
    return any(not frame.f_code.co_filename.startswith(_OURS) for frame, _ in walked)


def outside_traceback(exc: BaseException) -> str:
    """Return an exception's traceback without our own frames and those of Python's imports."""
    told = traceback.TracebackException.from_exception(exc)
    waiting = [told]
    while waiting:
        each = waiting.pop()
        each.stack[:] = [frame for frame in each.stack if not frame.filename.startswith(_OURS)]
        waiting += [other for other in (each.__cause__, each.__context__) if other is not None]
    return "".join(told.format())
