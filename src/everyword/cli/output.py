"""What commands print: text, tables and progress with rich, and JSON for scripts.

On a terminal there are colours, unless NO_COLOR is set or TERM is `dumb`, and long cells are cut at its edge. Files and
pipes get plain text of any length, so that scripts can read it; FORCE_COLOR turns the colours on there.

rich is imported for what people read, not for JSON.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from ..extras import missing
from .text import clean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

__all__ = ["Output", "Progress"]

UNBOUNDED = 10_000
"""Columns of a file or a pipe."""

NARROWEST = 12
"""Columns that the last column of a table has at least."""


class Output:
    """Where a command prints: results to `out`, everything else to `err`, so that a pipe receives only the results."""

    def __init__(self, *, is_json: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        self.out, self.err = out or sys.stdout, err or sys.stderr
        self.is_json = is_json

    @property
    def width(self) -> int:
        """Number of columns of the terminal; files and pipes have no limit."""
        return self._console.width

    def style(self, text: str, *names: str) -> str:
        """Return the text with these styles of rich (`red`, `bold`), or unchanged where no colours are wanted."""
        if not text or not names or not _wants_colour(self.out):
            return text
        return _styled(text, *names)

    def print(self, line: str = "") -> None:
        """Print a line of the result."""
        print(line, file=self.out)

    def write(self, text: str) -> None:
        """Print part of a line, and flush."""
        self.out.write(text)
        self.out.flush()

    def note(self, line: str) -> None:
        """Print a remark about the result, to `err`."""
        print(_styled(line, "dim") if _wants_colour(self.err) else line, file=self.err)

    def json(self, value: Any) -> None:
        """Print one JSON document: indented on a terminal, on one line otherwise."""
        text = msgspec.json.encode(value)
        if self.out.isatty():
            text = msgspec.json.format(text, indent=2)
        print(text.decode(), file=self.out)

    def json_line(self, value: Any) -> None:
        """Print a value as one line of JSON, and flush."""
        self.write(msgspec.json.encode(value).decode() + "\n")

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[Sequence[str]] = ()) -> None:
        """Print rows in columns. On a terminal, the last column is cut at its edge. `styles` has a style per cell."""
        with _rich():
            from rich.cells import cell_len
            from rich.table import Table
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
        before = sum(max(cell_len(row[at]) for row in (heads, *rows)) + 2 for at in range(len(heads) - 1))
        for at, head in enumerate(heads):
            room = max(self.width - before, NARROWEST) if at == len(heads) - 1 else None
            table.add_column(_cell(head, "dim"), no_wrap=True, overflow="ellipsis", max_width=room)
        for number, row in enumerate(rows):
            of_row = [*(styles[number] if number < len(styles) else ()), *([""] * len(row))]
            table.add_row(*(_cell(cell, style) for cell, style in zip(row, of_row, strict=False)))
        with self._console.capture() as printed:
            self._console.print(table)
        for line in printed.get().splitlines():  # rich pads the last column, too
            self.print(line.rstrip())

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Progress]:
        """Show a progress bar while the block runs, on a terminal; it disappears at the end."""
        if not self.err.isatty() or total <= 0:
            yield Progress()
            return
        with _rich():
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn
            from rich.progress import Progress as Bars
        what = TextColumn("{task.fields[what]}", markup=False)
        columns = (TextColumn("{task.description}"), BarColumn(24), TaskProgressColumn(), what)
        with Bars(*columns, console=_console(self.err), transient=True) as bars:
            task = bars.add_task(title, total=total, what="")
            yield Progress(lambda what, amount: bars.update(task, advance=amount, what=what))

    @cached_property
    def _console(self) -> Console:
        return _console(self.out)


class Progress:
    """Counts the steps of long work; `update` draws them."""

    def __init__(self, update: Callable[[str, int], None] | None = None) -> None:
        self._update = update

    def step(self, what: str = "", amount: int = 1) -> None:
        """Count steps as done; `what` names the thing that is being worked on."""
        if self._update is not None:
            self._update(clean(what), amount)


def _cell(text: str, style: str) -> Text:
    from rich.text import Text

    cell = Text(text)
    cell.stylize(style)  # the text alone: a style of the whole cell would include its padding
    return cell


def _console(stream: TextIO) -> Console:
    with _rich():
        from rich.console import Console
    wants_colour = _wants_colour(stream)
    return Console(
        file=stream,
        width=None if stream.isatty() else UNBOUNDED,
        color_system="standard" if wants_colour else None,
        force_terminal=wants_colour or stream.isatty(),
        highlight=False,
        markup=False,
        emoji=False,
    )


def _styled(text: str, *names: str) -> str:
    with _rich():
        from rich.color import ColorSystem
        from rich.style import Style
    return Style.parse(" ".join(names)).render(text, color_system=ColorSystem.STANDARD)


def _wants_colour(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


@contextmanager
def _rich() -> Iterator[None]:
    """Name the extra when an import in this block fails."""
    try:
        yield
    except ImportError:
        raise missing("rich", "server", "print text (--json works without)") from None
