"""The recording in the README: small enough to load, and each picture shown for as long as it was to be seen."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from tools.record import LARGEST, PAGE, TARGET, TERMINAL, WIDTH, assemble


def picture(shade: int) -> Image.Image:
    return Image.new("RGB", (WIDTH, TERMINAL + PAGE), (shade, shade, shade))


def durations(path: Path) -> list[int]:
    with Image.open(path) as film:
        shown = []
        for number in range(film.n_frames):  # type: ignore[attr-defined]
            film.seek(number)
            shown.append(film.info["duration"])
        return shown


def test_the_recording_moves_and_is_small() -> None:
    shown = durations(TARGET)
    assert len(shown) > 30
    assert 5_000 < sum(shown) < 30_000
    assert TARGET.stat().st_size <= LARGEST


def test_pictures_are_shown_as_long_as_they_were_seen_and_not_for_ever(tmp_path: Path) -> None:
    target = tmp_path / "film.gif"
    frames = [(0.0, picture(0)), (0.01, picture(60)), (0.3, picture(200)), (9.0, picture(0)), (9.4, picture(200))]
    assert assemble(frames, target) == 4, "two that follow each other at once are one"
    assert durations(target) == [300, 900, 400, 3500]
