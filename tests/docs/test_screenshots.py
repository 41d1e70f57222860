"""The pictures in the docs: all of them are shown, and small enough to load."""

from __future__ import annotations

from PIL import Image

from tests.architecture.tree import ROOT
from tools.screenshots import LARGEST, NAMES, TARGET


def test_every_screenshot_is_small_and_has_the_size_of_a_screen() -> None:
    assert {path.stem for path in TARGET.glob("*.png")} == set(NAMES)
    for name in NAMES:
        path = TARGET / f"{name}.png"
        assert 10_000 < path.stat().st_size <= LARGEST
        with Image.open(path) as picture:
            assert picture.width >= 400 and picture.height >= 480


def test_every_picture_is_shown_on_a_page() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert [path.name for path in TARGET.iterdir() if f"images/{path.name}" not in text] == []
