"""The source tree as data: what the architecture tests look at."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "everyword"


@dataclass(frozen=True)
class Module:
    """One parsed Python file; `name` is dotted and relative to the root of its tree."""

    path: Path
    name: str
    text: str
    is_package: bool = False

    @cached_property
    def syntax(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @property
    def top(self) -> str:
        """The first part of the name: the package that the import rules speak of."""
        return self.name.partition(".")[0]

    def nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self.syntax)

    def imports(self) -> Iterator[tuple[str, int]]:
        """Yield (absolute dotted name, line) of every import, wherever it stands, TYPE_CHECKING included.

        `from a import b` yields `a.b`: whether `b` is a module or a name inside one, the prefix says which
        package is reached into.
        """
        for node in self.nodes():
            yield from self._imports_of(node)

    def runtime_imports(self) -> Iterator[tuple[str, int]]:
        """Yield what `imports` does, without imports that only type checkers execute; imports in functions included."""
        waiting: list[ast.AST] = [self.syntax]
        while waiting:
            node = waiting.pop()
            yield from self._imports_of(node)
            is_typing = isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
            waiting += node.orelse if isinstance(node, ast.If) and is_typing else ast.iter_child_nodes(node)

    def _imports_of(self, node: ast.AST) -> Iterator[tuple[str, int]]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = self._resolve(node)
            for alias in node.names:
                yield (f"{base}.{alias.name}" if base else alias.name), node.lineno

    def _resolve(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = ["everyword", *self.name.split(".")] if self.name != "__init__" else ["everyword"]
        keep = len(parts) - node.level + (1 if self.is_package else 0)
        return ".".join([*parts[:keep], *([node.module] if node.module else [])])


def parse_module(text: str, name: str, *, is_package: bool = False) -> Module:
    """Make a module of `text`, as if it stood at `everyword.<name>`: for seeding violations."""
    path = Path(*name.split(".")).with_suffix(".py")
    return Module(path=path, name=name, text=text, is_package=is_package)


@cache
def read_tree(folder: Path) -> list[Module]:
    """Read every Python file below `folder`, sorted by name; once, because files are not edited during a test run."""
    found = []
    for path in sorted(_python_files(folder)):
        parts = path.relative_to(folder).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package and len(parts) > 1 else parts)
        found.append(Module(path=path, name=name, text=path.read_text(encoding="utf-8"), is_package=is_package))
    return found


def _python_files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("node_modules", "__pycache__")]
        yield from (Path(place, name) for name in names if name.endswith(".py"))


def read_source() -> list[Module]:
    """Read the package; fails when there is nothing worth testing."""
    modules = read_tree(SOURCE)
    seen = {module.name for module in modules}
    assert {"__init__", "ids", "errors", "events"} <= seen, f"the source tree is not where it was: {seen}"
    return modules


def read_tests() -> list[Module]:
    """Read the tests; fails when there are none."""
    modules = read_tree(ROOT / "tests")
    assert any(module.path.name.startswith("test_") for module in modules), "no tests were found"
    return modules


def tracked_files() -> list[Path]:
    """Return the files that are, or would be, in the repository."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout.decode()
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file()]


def docstring_of(node: ast.AST) -> ast.Expr | None:
    """Return the statement that is the node's docstring, if it has one."""
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    match node.body:
        case [ast.Expr(value=ast.Constant(value=str())) as first, *_]:
            return first
        case _:
            return None
