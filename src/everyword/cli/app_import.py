"""Imports the app that is named on the command line as `app.py` or `module:app`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import BrokenApp, UsageError
from ..traces import has_outside_frames, outside_traceback

__all__ = ["DEFAULT_APP", "load_app"]

DEFAULT_APP = "app.py"
"""The app that is used when none is named."""


def load_app(named: str) -> Any:
    """Import an application.

    Raises:
        UsageError: there is no such file, module or name.
        BrokenApp: its own code failed.
    """
    where, _, name = named.partition(":")
    try:
        module = _load_file(Path(where)) if where.endswith(".py") else _load_module(where)
    except Exception as exc:
        if isinstance(exc, UsageError) and not has_outside_frames(exc):
            raise
        raise BrokenApp(outside_traceback(exc)) from exc
    if name:
        if not hasattr(module, name):
            raise UsageError(f"unable to serve {named!r}; {where} has no {name!r}")
        return getattr(module, name)
    if hasattr(module, "app"):
        return module.app
    from ..server import Everyword

    found = [value for value in vars(module).values() if isinstance(value, Everyword)]
    if len(found) != 1:
        raise UsageError(
            f"unable to serve {named!r}; it has no `app`. Add `app = Everyword([...])`, or name it: {where}:name"
        )
    return found[0]


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"unable to serve {str(path)!r}; there is no such file")
    # As with `python app.py`, the app can import its neighbours; also modules of the working folder.
    sys.path[:0] = [str(path.resolve().parent), str(Path.cwd())]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _load_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{name}.".startswith(f"{exc.name}."):
            raise  # the module exists; something that it imports does not
        raise UsageError(f"unable to serve {name!r}; there is no such module. For a file, write {name}.py") from exc
