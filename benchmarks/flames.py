"""What a flame graph says, in words: `python -m benchmarks.flames benchmarks/profiles/400-everyword.svg`.

Shares are of all samples of the process, its start left out. *Self* is the function's own; *all* has what it calls.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import NamedTuple

__all__ = ["Frame", "read_frames", "shares"]

_FRAME = re.compile(
    r'<title>(?P<name>[^<]*) \([\d,]+ samples?, [\d.]+%\)</title>\s*<rect[^>]*?y="(?P<y>\d+)"[^>]*?'
    r'fg:x="(?P<x>\d+)" fg:w="(?P<width>\d+)"'
)
_LINE = re.compile(r":\d+\)$")
STARTING = "importlib"
"""Frames of a process that is still loading its modules."""


class Frame(NamedTuple):
    """A box of the graph: what runs, how deep, and which samples."""

    depth: int
    start: int
    width: int
    name: str


def read_frames(picture: str) -> list[Frame]:
    """Return the boxes, outermost first and from left to right."""
    found = [
        Frame(int(each["y"]), int(each["x"]), int(each["width"]), _LINE.sub(")", unescape(each["name"])))
        for each in _FRAME.finditer(picture)
    ]
    levels = {y: level for level, y in enumerate(sorted({frame.depth for frame in found}))}
    return sorted(frame._replace(depth=levels[frame.depth]) for frame in found)


def shares(frames: list[Frame]) -> tuple[Counter[str], Counter[str], int]:
    """Return the samples of each function itself, those with what it calls, and how many there were in all."""
    own, whole, total = Counter[str](), Counter[str](), 0
    for path, samples in _stacks(frames):
        if not any(STARTING in name for name in path):
            own[path[-1]] += samples
            whole.update(dict.fromkeys(path, samples))
            total += samples
    return own, whole, total


def _stacks(frames: list[Frame]) -> Iterator[tuple[list[str], int]]:
    """Yield every stack that was seen, outermost function first, and how often it was."""
    stack: list[Frame] = []
    left: list[int] = []
    for frame in sorted(frames, key=lambda each: (each.start, each.depth)):
        while stack and frame.depth <= stack[-1].depth:
            yield [each.name for each in stack], left.pop()
            stack.pop()
        if left:
            left[-1] -= frame.width
        stack.append(frame)
        left.append(frame.width)
    while stack:
        yield [each.name for each in stack], left.pop()
        stack.pop()


def main(path: str) -> int:
    own, whole, total = shares(read_frames(Path(path).read_text(encoding="utf-8")))
    for title, counts in (("self", own), ("all", whole)):
        print(f"\n{title:>6}")
        for name, count in counts.most_common(40):
            print(f"{count / total * 100:5.1f}%  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
