"""Install packages with pip and say in one line how far it is: `python tools/install.py "the demo" -- --editable .`.

pip says either nothing for a minute or a hundred lines. All that it said is printed when it fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO

__all__ = ["Progress", "main", "steps"]

_FOUND = re.compile(r"(?:Collecting|Requirement already satisfied:) ([\w.-]+)")
_WRITTEN = re.compile(r"Installing collected packages: (.+)")


class Progress:
    """Steps of one piece of work: on a terminal one line that changes, elsewhere (a CI log) only the last of them."""

    def __init__(self, title: str, out: TextIO) -> None:
        self._title, self._out = title, out
        self._is_terminal = out.isatty()
        if not self._is_terminal:
            print(f"{title} ...", file=out, flush=True)

    def show(self, step: str) -> None:
        """Replace the step that is shown."""
        if self._is_terminal:
            # Returns to the start of the line and erases it: nothing of a longer step stays behind.
            print(f"\r\x1b[K{self._title} ... {step}", end="", file=self._out, flush=True)

    def end(self, result: str) -> None:
        """Show how it ended, on a line that stays."""
        print(f"\r\x1b[K{self._title}: {result}" if self._is_terminal else f"{self._title}: {result}", file=self._out)


def steps(lines: Iterable[str]) -> Iterator[str]:
    """Return what pip is doing, from the lines that it prints."""
    found = set[str]()
    for line in lines:
        if match := _FOUND.match(line.strip()):
            found.add(match[1])
            yield f"{len(found)} found, {match[1]}"
        elif match := _WRITTEN.match(line):
            yield f"writing {match[1].count(',') + 1} packages"


def main(arguments: list[str]) -> int:
    """Run `pip install` with the arguments behind `--`; return its exit code."""
    what, _, *options = arguments
    progress, began = Progress(f"setup: installing {what}", sys.stdout), time.monotonic()
    said = list[str]()

    def heard(pip: subprocess.Popen[str]) -> Iterator[str]:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            yield line

    command = [sys.executable, "-u", "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        for step in steps(heard(pip)):
            progress.show(step)
    if pip.returncode:
        progress.end("failed; pip said:")
        print("".join(said), file=sys.stderr, end="")
        return pip.returncode
    progress.end(f"done in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
