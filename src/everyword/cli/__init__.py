"""The `everyword` command. `parser` says what there is to type; every command has a module of its own beside it.

Exit codes: 0 done; 1 done, and what was found is not as it should be; 2 not done, the sentence says why; 3 not done,
because a server uses the file; 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections.abc import Sequence
from importlib import import_module

import msgspec

from ..errors import BrokenApp, EverywordError, LogCorrupt, LogLocked
from .parser import make_parser

NOT_DONE, IN_USE, INTERRUPTED = 2, 3, 130

SERVING = {"dev", "serve"}
"""Commands that run other people's code, whose errors are theirs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    parser = make_parser()
    chosen = parser.parse_args(arguments)
    if chosen.command is None:
        parser.print_help()
        return NOT_DONE
    try:
        code = _run(chosen)
        sys.stdout.flush()
    except LogLocked as exc:
        print(f"everyword: {exc}", file=sys.stderr)
        return IN_USE
    except BrokenApp as exc:
        print(exc, file=sys.stderr, end="")
        return NOT_DONE
    except EverywordError as exc:
        print(f"everyword: {exc}", file=sys.stderr)
        return NOT_DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read has seen enough (`everyword ls | head`); nothing more can be said, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _run(chosen: argparse.Namespace) -> int:
    # Imported when asked for: `--help` needs no server, and a list needs no web framework.
    module, _, function = chosen.run.partition(":")
    run = getattr(import_module(f".{module}", __package__), function or "run")
    if chosen.command in SERVING:
        return int(run(chosen))
    try:
        return int(run(chosen))
    except (msgspec.DecodeError, UnicodeDecodeError, sqlite3.DatabaseError) as exc:
        # A damaged file may hold anything anywhere: who asked is owed a sentence, and the doctor finds the place.
        told = f"unable to {chosen.command}; stored bytes cannot be read ({exc}). Try `everyword doctor`"
        raise LogCorrupt(told) from exc
