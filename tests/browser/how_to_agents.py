"""The agents of the how-to pages, taken from the Markdown, for the browser tests."""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any, Final

from everyword.agents import AIChatAgent
from tests.architecture.test_docs_examples import script_of
from tests.architecture.tree import ROOT

__all__ = ["NAMES", "PRINTED", "printed"]

PAGES: Final = {"server-tool": "Shop", "approval": "Bank", "data-parts": "Weather"}


def printed(page: str) -> dict[str, Any]:
    """Run the definitions of a how-to page without its bare expressions and asserts; return its names."""
    syntax = ast.parse(script_of((ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")), f"{page}.md")
    syntax.body = [node for node in syntax.body if not isinstance(node, ast.Expr | ast.Assert)]
    module = ModuleType(f"printed_{page.replace('-', '_')}")
    exec(compile(syntax, f"{page}.md", "exec"), module.__dict__)
    return module.__dict__


NAMES: Final = {page: printed(page) for page in PAGES}
PRINTED: Final[tuple[type[AIChatAgent], ...]] = tuple(NAMES[page][name] for page, name in PAGES.items())
