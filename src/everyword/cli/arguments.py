"""Arguments that several commands share, and the values they take."""

from __future__ import annotations

import argparse
import re

from ..errors import UsageError
from ..ids import Millis

__all__ = ["add_address", "add_agent", "add_json", "add_store", "parse_count", "parse_duration"]

_UNITS = {"s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def add_agent(parser: argparse.ArgumentParser, meaning: str = "kind/name, or the name alone if it is unique") -> None:
    """Add AGENT, the agent that the command works on."""
    parser.add_argument("agent", metavar="AGENT", help=meaning)


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add --db and --json."""
    parser.add_argument(
        "--db",
        "--store",
        metavar="STORE",
        default="everyword.db",
        help="database file, or postgresql://… (default: %(default)s)",
    )
    add_json(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="write JSON, for scripts")


def add_address(parser: argparse.ArgumentParser) -> None:
    """Add --host and --port."""
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8787, help="port; 0 picks a free one (default: %(default)s)")


def parse_count(given: str) -> int:
    """Return a number that is not negative, for argparse's `type`."""
    number = int(given)
    if number < 0:
        raise ValueError
    return number


def parse_duration(given: str) -> Millis:
    """Return the milliseconds of `90s`, `30m`, `24h` or `7d`.

    Raises:
        UsageError: the text is not a duration.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", given.strip().lower())
    unit = _UNITS.get(found[2] or "s") if found is not None else None
    if found is None or unit is None:
        raise UsageError(f"unable to read {given!r} as a duration; write 90s, 30m, 24h or 7d")
    return Millis(round(float(found[1]) * unit))
