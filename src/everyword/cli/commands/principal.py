"""`everyword principal`: everything that is stored about one person, as a file; or delete it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from ...errors import UsageError
from ...server.app import Everyword
from ..app_import import DEFAULT_APP, load_app
from ..arguments import add_store
from ..output import Output
from ..text import count_of

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Write everything that is stored about a principal (a person, as `authenticate` names it) to a zip file, or erase it from
everywhere. Erasing deletes the conversations that it owns, and replaces its messages in conversations of others. It
asks for confirmation, unless --yes is given, and cannot be undone.

The app is imported and runs meanwhile, because its agents clean up their own tables (`on_erase`): turns and jobs that
are due go on. A database file must not be in use by a server.

examples:
  everyword principal export user-42 -o user-42.zip
  everyword principal erase user-42
  everyword principal erase user-42 --answers --yes --app my.package:app --store postgresql://…
"""

NOT_CONFIRMED = 2
INCOMPLETE = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["export", "erase"], help="write what is stored, or delete it")
    parser.add_argument("principal", metavar="ID", help="the id of the principal")
    parser.add_argument("--app", metavar="APP", default=DEFAULT_APP, help="the app (default: %(default)s)")
    parser.add_argument("-o", "--output", metavar="FILE", help="export: the zip file (default: ID.zip)")
    parser.add_argument("--answers", action="store_true", help="erase: the answers to its questions, too")
    parser.add_argument("--yes", action="store_true", help="erase: do not ask for confirmation")
    add_store(parser)


def run(chosen: argparse.Namespace) -> int:
    """Export or erase a principal."""
    app = load_app(chosen.app)
    if not isinstance(app, Everyword):
        raise UsageError(f"unable to use {chosen.app}; it is not an Everyword app. Name one: --app my.package:app")
    app.use_store(chosen.db)
    return asyncio.run(_run(app, Output(is_json=chosen.json), chosen))


async def _run(app: Everyword, output: Output, chosen: argparse.Namespace) -> int:
    if chosen.what == "erase" and not chosen.yes and not _is_confirmed(chosen.principal):
        output.note("nothing was deleted")
        return NOT_CONFIRMED
    async with app:
        if chosen.what == "export":
            return await _export(app, output, chosen)
        return await _erase(app, output, chosen)


async def _export(app: Everyword, output: Output, chosen: argparse.Namespace) -> int:
    path = chosen.output or f"{''.join(each if each.isalnum() else '-' for each in chosen.principal)}.zip"
    counts = await app.principals.export(chosen.principal, path)
    if output.is_json:
        output.json({"file": path, "files": counts})
    else:
        output.print(f"{path}: {count_of(len(counts), 'file')}, {count_of(sum(counts.values()), 'record')}")
    return 0


async def _erase(app: Everyword, output: Output, chosen: argparse.Namespace) -> int:
    report = await app.principals.erase(chosen.principal, answers=chosen.answers)
    if output.is_json:
        output.json({"id": report.id, "complete": report.is_complete, "left": report.left, "agents": _plain(report)})
        return 0 if report.is_complete else INCOMPLETE
    deleted = sum(each.is_deleted for each in report.agents)
    others = [each for each in report.agents if not each.is_deleted]
    output.print(f"erased; its id is {report.id} now. {count_of(deleted, 'conversation')} deleted")
    for each in others:
        counts = ", ".join(f"{count} {noun}" for noun, count in each.counts.items()) or "nothing to replace"
        output.print(f"  {each.kind}/{each.name}: {counts}")
    for each in report.problems:
        output.note(f"not complete: {each.kind}/{each.name}: {each.problem}. Run the command again")
    if report.left is not None:
        output.note(report.left)
    return 0 if report.is_complete else INCOMPLETE


def _plain(report: Any) -> list[dict[str, Any]]:
    return [
        {
            "kind": each.kind,
            "name": each.name,
            "deleted": each.is_deleted,
            "counts": each.counts,
            "problem": each.problem,
        }
        for each in report.agents
    ]


def _is_confirmed(principal: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(f"unable to ask for confirmation to erase {principal!r}; there is no terminal. Add --yes")
    text = f"Erase {principal} from all conversations, and delete its own? This cannot be undone. [y/N] "
    print(text, end="", file=sys.stderr)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
