"""The `everyword` command: `commands/` has a module per command, `parser` the list of them.

Exit codes: 0 success; 1 finished, problems found; 2 not done, the message says why; 3 not done, because a server uses
the file; 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ..errors import BrokenApp, EverywordError, LogCorrupt, LogLocked
from .parser import make_parser

NOT_DONE, IN_USE, INTERRUPTED = 2, 3, 130

SERVERS = {"dev", "serve"}
"""Commands that run the user's code. Its exceptions are shown as they are."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code."""
    parser = make_parser()
    try:
        chosen = parser.parse_args(arguments)
        if chosen.command is None:
            parser.print_help()
            return NOT_DONE
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
        # The reader closed the pipe (`everyword ls | head`). Python flushes stdout at exit, which must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _run(chosen: argparse.Namespace) -> int:
    if chosen.command in SERVERS:
        return int(chosen.run(chosen))
    import sqlite3

    import msgspec

    try:
        return int(chosen.run(chosen))
    except (msgspec.DecodeError, UnicodeDecodeError, sqlite3.DatabaseError) as exc:
        # A damaged file can fail anywhere. Report it in one sentence; `doctor` finds the place.
        text = f"unable to {chosen.command}; stored bytes cannot be read ({exc}). Run `everyword doctor`"
        raise LogCorrupt(text) from exc
