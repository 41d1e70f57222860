"""Text and traceback of exceptions, for log lines and command line output."""

from __future__ import annotations

import importlib
import traceback
from typing import Final

__all__ = ["full_text", "has_outside_frames", "outside_traceback"]

_OURS: Final = (__file__.removesuffix("traces.py"), "<frozen importlib", importlib.__file__)


def full_text(exc: BaseException) -> str:
    """Return an exception's text and its notes. The notes are not for clients."""
    return " | ".join([str(exc), *getattr(exc, "__notes__", ())])


def has_outside_frames(exc: BaseException) -> bool:
    """Return True if the traceback has frames outside everyword; otherwise it is not worth showing."""
    walked = traceback.walk_tb(exc.__traceback__)
    return any(not frame.f_code.co_filename.startswith(_OURS) for frame, _ in walked)


def outside_traceback(exc: BaseException) -> str:
    """Return an exception's traceback without frames of everyword and of Python's import system."""
    root = traceback.TracebackException.from_exception(exc)
    pending = [root]
    while pending:
        current = pending.pop()
        current.stack[:] = [frame for frame in current.stack if not frame.filename.startswith(_OURS)]
        pending += [other for other in (current.__cause__, current.__context__) if other is not None]
    return "".join(root.format())
