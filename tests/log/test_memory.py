"""The reference store passes the contract tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from everyword.errors import LogUnavailable
from everyword.ids import Seq
from everyword.log.base import Batch
from everyword.log.memory import MemoryLog
from tests.log.building import A, Owner, fact, seqs
from tests.log.contract import LogContract


class TestMemoryLog(LogContract):
    """The store object takes the place of the disk: it keeps its content when it is closed and opened again."""

    @pytest.fixture(autouse=True)
    def _disk(self) -> None:
        self.store = MemoryLog()

    def make(self, folder: Path) -> MemoryLog:
        return self.store


class Unreliable(MemoryLog):
    """Loses one batch, or only its acknowledgement."""

    lose = ""

    def commit(self, batch: Batch) -> None:
        if self.lose == "batch":
            raise LogUnavailable("unable to append; told so")
        super().commit(batch)
        if self.lose == "answer":
            raise LogUnavailable("unable to say; told so")


@pytest.mark.parametrize(("lose", "stored"), [("batch", []), ("answer", [1])])
async def test_a_subclass_can_fail_around_the_commit(lose: str, stored: list[int]) -> None:
    store = Unreliable()
    await store.open()
    owner = await Owner.take(store)
    store.lose = lose
    with pytest.raises(LogUnavailable, match="told so"):
        await owner.append(fact("x"))
    assert seqs(await store.read(A, Seq(0))) == stored
