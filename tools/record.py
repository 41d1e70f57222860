"""Record the demo: a question, `kill -9` in the middle of the answer, a restart, and the same message that goes on.

What is seen is what happens: `everyword dev` runs as a process, a browser shows its page, the process is really killed
and really started again on the same file. Above the page stands what the terminal said. `make recording` writes
docs/images/kill-9.gif.
"""

from __future__ import annotations

import asyncio
import base64
import html
import io
import math
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.async_api import CDPSession, Page, async_playwright

from tools.demo import Running, running

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images" / "kill-9.gif"
LARGEST = 400_000

WIDTH, TERMINAL, PAGE = 720, 134, 500
COLOURS = 48
# Pictures closer together than this, in seconds, are one: nobody sees the difference, and everybody loads it.
PACE = 0.09

QUESTION = "Tell me a long story"
# When the server is killed and when the recording ends, in letters of the answer.
KILLED_AT, ENOUGH = 290, 640

_SHELL = """<!doctype html><meta charset="utf-8"><style>
html { background: #11161c; color: #c9d4df; font: 13px/20px ui-monospace, "DejaVu Sans Mono", monospace; }
body { margin: 0; padding: 10px 14px; white-space: pre; overflow: hidden; }
b { color: #fff; } i { color: #ff6b5e; font-style: normal; }
</style><body></body>"""

_SAID = (
    """() => [...document.querySelectorAll("#messages li.assistant .text")].map((part) => part.textContent).join("")"""
)


@dataclass
class Film:
    """What the browser drew of the page, as it drew it, below what the terminal said at that moment."""

    terminal: Page
    page: Page
    lines: list[str] = field(default_factory=list)
    shell: Image.Image | None = None
    shown: Image.Image | None = None
    frames: list[tuple[float, Image.Image]] = field(default_factory=list)
    camera: CDPSession | None = None
    acknowledged: list[asyncio.Future[Any]] = field(default_factory=list)
    rests_at: float = math.inf

    async def begin(self) -> None:
        """Have every picture that the browser draws from now on."""
        self.camera = camera = await self.page.context.new_cdp_session(self.page)

        def drawn(frame: dict[str, Any]) -> None:
            acknowledged = asyncio.ensure_future(
                camera.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})
            )
            self.acknowledged.append(acknowledged)
            self.shown = _picture(base64.b64decode(frame["data"]))
            self._expose()

        camera.on("Page.screencastFrame", drawn)
        await camera.send("Page.startScreencast", {"format": "png", "everyNthFrame": 1})

    async def end(self) -> None:
        if self.camera is not None:
            await self.camera.send("Page.stopScreencast")
            await asyncio.gather(*self.acknowledged)

    async def say(self, line: str) -> None:
        """Write a line, as HTML, into the terminal."""
        self.lines.append(line)
        await self.terminal.evaluate("text => { document.body.innerHTML = text; }", "\n".join(self.lines[-6:]))
        self.shell = _picture(await self.terminal.screenshot())
        self._expose()

    def _expose(self) -> None:
        if self.shell is None or self.shown is None or time.monotonic() > self.rests_at:
            return
        both = Image.new("RGB", (WIDTH, TERMINAL + PAGE))
        both.paste(self.shell, (0, 0))
        both.paste(self.shown, (0, TERMINAL))
        self.frames.append((time.monotonic(), both))

    async def until_said(self, letters: int) -> str:
        """Wait until the answer has so many letters; return them."""
        await self.page.wait_for_function(f"letters => ({_SAID})().length >= letters", arg=letters, timeout=120_000)
        said: str = await self.page.evaluate(_SAID)
        return said


def _picture(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


@asynccontextmanager
async def _serving(film: Film, folder: Path, port: str) -> AsyncIterator[Running]:
    """Run the demo on a file in the folder, and film what it says of itself."""
    await film.say("<b>$ everyword dev</b>")
    async with running(folder, port) as server:
        film.rests_at = math.inf
        await film.say(html.escape(server.said))
        yield server


async def _play(film: Film, folder: Path) -> None:
    """Ask, kill, start again, and wait until the sentence has gone on."""
    async with _serving(film, folder, "0") as server:
        await film.page.goto(server.url)
        await film.begin()
        box = film.page.get_by_role("textbox", name="Your message")
        await asyncio.sleep(1)
        await box.press_sequentially(QUESTION, delay=40)
        await box.press("Enter")
        await film.until_said(KILLED_AT)
        await server.kill()
        await film.say(f"<i>$ kill -9 {server.process.pid}</i>")
        before: str = await film.page.evaluate(_SAID)
        await asyncio.sleep(2.5)
    film.rests_at = time.monotonic() + 1  # how long Python takes to start is no part of the story
    async with _serving(film, folder, server.port):
        after = await film.until_said(ENOUGH)
        await film.end()
    if not after.startswith(before):
        raise SystemExit(f"unable to record; a word was lost: {before!r} became {after!r}")


async def record() -> list[tuple[float, Image.Image]]:
    """Return the pictures of one run and when they were taken."""
    path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        terminal = await browser.new_page(viewport={"width": WIDTH, "height": TERMINAL})
        await terminal.set_content(_SHELL)
        page = await browser.new_page(viewport={"width": WIDTH, "height": PAGE}, color_scheme="light")
        film = Film(terminal, page)
        with tempfile.TemporaryDirectory() as folder:
            await _play(film, Path(folder))
        await browser.close()
        return film.frames


def assemble(frames: list[tuple[float, Image.Image]], target: Path) -> int:
    """Write the pictures as one animation in one palette; return how many there are.

    Each is shown for as long as it was to be seen, but none for so long that somebody would think it is over.
    """
    kept = [frames[0]]
    for frame in frames[1:-1]:
        if frame[0] - kept[-1][0] >= PACE and frame[1].tobytes() != kept[-1][1].tobytes():
            kept.append(frame)
    kept.append(frames[-1])
    shown = [min(int((later[0] - taken[0]) * 1000), 900) for taken, later in pairwise(kept)]
    # The palette is taken from all of it, or the red of the kill would be grey.
    sample = Image.new("RGB", (WIDTH, (TERMINAL + PAGE) * 3))
    for place, index in enumerate((0, len(kept) // 2, len(kept) - 1)):
        sample.paste(kept[index][1], (0, place * (TERMINAL + PAGE)))
    palette = sample.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    first, *others = [image.quantize(palette=palette, dither=Image.Dither.NONE) for _, image in kept]
    first.save(target, save_all=True, append_images=others, duration=[*shown, 3500], loop=0, optimize=True, disposal=1)
    return len(kept)


def main() -> int:
    frames = asyncio.run(record())
    TARGET.parent.mkdir(exist_ok=True)
    count = assemble(frames, TARGET)
    size = TARGET.stat().st_size
    print(f"{TARGET.relative_to(ROOT)}: {count} pictures, {size // 1000} kB")
    return 0 if size <= LARGEST else 1


if __name__ == "__main__":
    sys.exit(main())
