"""The reference store passes the contract tests."""

from __future__ import annotations

import pytest

from everyword.errors import LogUnavailable
from everyword.ids import Seq
from everyword.log.base import Batch
from everyword.log.memory import MemoryLog
from tests.log.building import A, Owner, fact, seqs
from tests.log.contract import LogContract


class TestMemoryLog(LogContract):
    kind = "memory"


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
