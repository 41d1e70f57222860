"""A store with conversations of every kind, made once and copied for each test."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.cli.kit import converse


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "everyword.db"
    asyncio.run(converse(path))
    return path


@pytest.fixture
def stored(_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`everyword.db` in the working folder: ann has failed, bob is asked, cid was cut off, dan was cleared."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copy(_made, tmp_path / "everyword.db"))
