"""Build the documentation as a static site that needs no network: `make docs` writes build/site.

The pages in docs/ are written for any reader of Markdown. Here they are copied, told where things are that lie outside
docs/, given what the generator wants, and built strictly. The navigation is the index, docs/README.md: its headings are
the sections and its tables the pages. Afterwards every link and picture of every page is followed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BUILD = ROOT / "build"
STYLE = Path(__file__).with_name("site.css")
ICON = ROOT / "src" / "everyword" / "web" / "files" / "icon.svg"

# Pages of the site that do not lie in docs/.
OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security.md",
}

_FENCE = re.compile(r"^```.*?^```[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<text>!?\[[^\]\n]*\])\((?P<target>(?!https?:|mailto:|#)[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
_ROW = re.compile(r"^\| \[[^\]]+\]\((?P<page>[^)]+\.md)\) \|", re.MULTILINE)


def navigation(index: str) -> list[tuple[str, list[str]]]:
    """Return (section, pages) in the order of the index."""
    sections = re.split(r"^## ", index, flags=re.MULTILINE)[1:]
    found = [(text.partition("\n")[0].strip(), _ROW.findall(text)) for text in sections]
    return [(name, [_staged(page) for page in pages]) for name, pages in found if pages]


def _staged(page: str) -> str:
    return OUTSIDE.get(page.removeprefix("../"), page)


def prepare(text: str, page: Path, staged: Path, taken: set[Path]) -> str:
    """Return the text of a page as the generator wants it; add to `taken` what it links to outside docs/.

    Fences lose the words that our tests read, lists are indented by four, and links go where the files will be.
    """
    pieces, end = [], 0
    for fence in _FENCE.finditer(text):
        pieces.append(_prepare_prose(text[end : fence.start()], page, staged, taken))
        pieces.append(re.sub(r"^```(\w+)[^\n]*", r"```\1", fence.group()))
        end = fence.end()
    return "".join([*pieces, _prepare_prose(text[end:], page, staged, taken)])


def _prepare_prose(text: str, page: Path, staged: Path, taken: set[Path]) -> str:
    def lead(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / link["target"]))
        if target.is_dir():
            return link["text"].strip("[]")
        if target.is_relative_to(DOCS):
            place = target.relative_to(DOCS)
        elif (inside := str(target.relative_to(ROOT))) in OUTSIDE:
            place = Path(OUTSIDE[inside])
        else:
            taken.add(target)
            place = Path("files") / target.relative_to(ROOT)
        return f"{link['text']}({os.path.relpath(place, staged.parent)}{link['anchor'] or ''})"

    indented = re.sub(r"^( {2,3})+(?=\S)", lambda found: found.group() * 2, text, flags=re.MULTILINE)
    return _LINK.sub(lead, indented)


def stage(folder: Path) -> None:
    """Write everything that the site is made of into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder)
    taken: set[Path] = set()
    pages = {page: page.relative_to(DOCS) for page in DOCS.rglob("*.md")}
    pages |= {ROOT / name: Path(place) for name, place in OUTSIDE.items()}
    for page, place in pages.items():
        (folder / place).write_text(prepare(page.read_text(encoding="utf-8"), page, place, taken), encoding="utf-8")
    for file in taken:
        copy = folder / "files" / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    shutil.copyfile(STYLE, folder / "site.css")
    shutil.copyfile(ICON, folder / "icon.svg")


def settings(source: str, target: str) -> dict[str, Any]:
    """Return what the generator is told: two folders beside its settings, and nothing that loads from elsewhere."""
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    schemes = [("default", "auto", "light", "dark"), ("slate", "auto-dark", "dark", "light")]
    return {
        "site_name": "everyword",
        "site_description": "AI chat agents that do not lose a word",
        "docs_dir": source,
        "site_dir": target,
        "use_directory_urls": False,
        "nav": [{"Documentation": "README.md"}, *({name: pages} for name, pages in navigation(index))],
        "extra_css": ["site.css"],
        "extra": {"generator": False},
        "theme": {
            "variant": "modern",
            "font": False,
            "logo": "icon.svg",
            "favicon": "icon.svg",
            "features": ["navigation.sections", "navigation.top", "content.code.copy", "toc.follow"],
            "palette": [
                {
                    "media": f"(prefers-color-scheme: {shown})",
                    "scheme": scheme,
                    "toggle": {"icon": f"lucide/{'sun' if shown == 'light' else 'moon'}", "name": f"Go {other}"},
                }
                for scheme, _, shown, other in schemes
            ],
        },
        "markdown_extensions": [
            *("admonition", "attr_list", "md_in_html", "tables", {"toc": {"permalink": True}}),
            *("pymdownx.superfences", "pymdownx.inlinehilite", {"pymdownx.highlight": {"pygments_lang_class": True}}),
        ],
        "plugins": ["search"],
    }


class _Links(HTMLParser):
    """What a page refers to, what it loads, and which anchors it has."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.references.append(given["href"])
        elif tag in ("img", "script", "iframe", "source") and "src" in given:
            self.loaded.append(given["src"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(given.get("href", ""))


def faults(site: Path) -> Iterator[str]:
    """Yield every reference of the built pages that leads nowhere, and everything loaded from elsewhere."""
    pages: dict[Path, _Links] = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = _Links()
        pages[path].feed(path.read_text(encoding="utf-8"))
    for path, links in pages.items():
        name = path.relative_to(site)
        yield from (f"{name} loads {each}" for each in links.loaded if re.match(r"(https?:)?//", each))
        if name.name == "404.html":
            continue
        for each in [*links.references, *links.loaded]:
            parts = urlsplit(each)
            if parts.scheme or parts.netloc:
                continue
            target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name} leads to {each}, which is not there"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name} leads to {each}; there is no such heading"


def build(folder: Path) -> Path:
    """Build the site below a folder and return where it is; raises SystemExit when something is wrong with it."""
    source, site = folder / "site-source", folder / "site"
    stage(source)
    configuration = folder / "site.yml"
    # JSON is YAML, and needs no library.
    configuration.write_text(json.dumps(settings(source.name, site.name), indent=1), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(configuration)]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src")},
    )
    if ran.returncode:
        raise SystemExit(f"unable to build the site; the generator says:\n{ran.stdout}{ran.stderr}")
    if found := list(faults(site)):
        raise SystemExit("unable to build the site; it has faults:\n" + "\n".join(found))
    return site


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Build the documentation as a static site.")
    parser.add_argument("--into", type=Path, default=BUILD, help="folder that the site is made in (default: build)")
    folder: Path = parser.parse_args(arguments).into.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    site = build(folder)
    print(f"open {site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
