"""The examples that think do what they say, with a model that is ours."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel

from everyword import Everyword
from tests.agents.think.kit import Script, call
from tests.server.kit import ask, connect, folded, question, serving, text_of


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _fresh(name: str) -> Any:
    """Import an example anew: an app runs once."""
    return importlib.reload(importlib.import_module(f"examples.{name}.app"))


@pytest.fixture
def desk(tmp_path: Path) -> Any:
    """The agent of the support desk, for a model."""
    module = importlib.reload(importlib.import_module("examples.support_desk.desk"))
    module.app = Everyword([module.ThinkingSupport], store="memory:")
    return module


async def test_the_desk_looks_an_order_up_and_asks_before_it_pays_much_back(
    desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Script(
        [call("find_order", "c1", 1, number="1002"), call("find_order", "c2", 2, number="9")],
        [call("refund", "c3", 1, order="1002", amount=249), call("refund", "c4", 2, order="1001", amount=39)],
        ["Both are paid back."],
    )
    monkeypatch.setattr(desk.ThinkingSupport, "model", script.model)
    async with serving(desk.app) as url, connect(f"{url}/agents/support/ann") as client:
        reader = await ask(client, question(text="my lamp is broken"))
        parts = {part.get("toolCallId"): part for part in folded(reader.chunks)["parts"]}
        assert parts["c1"]["output"]["item"] == "a lamp"
        assert parts["c2"]["errorText"] == "There is no order 9."
        assert (parts["c3"]["state"], parts["c4"]["state"]) == ("approval-requested", "output-available")
        (waits,) = (await desk.app.approvals.list()).approvals
        assert (waits.summary, waits.risk) == ("Pay back 249.00 € for order 1002", "high")
        await desk.app.approvals.answer(waits.id, True)
        await desk.app.get(desk.ThinkingSupport, "ann").wait_until_stable()
        stored = (await client.get("get-messages")).json()
    assert text_of(stored[-1]) == "Both are paid back."
    assert sorted(desk.PAID_BACK.values()) == [
        "paid 249.00 € back for order 1002",
        "paid 39.00 € back for order 1001",
    ]


async def test_the_desk_runs_with_any_model(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk.ThinkingSupport, "model", TestModel())
    async with serving(desk.app) as url, connect(f"{url}/agents/support/ann") as client:
        chunks = (await ask(client, question(text="hello"))).chunks
    called = {chunk["toolName"] for chunk in chunks if chunk["type"] == "tool-input-available"}
    assert called == {"find_order", "track", "refund", "change_address"}
    assert next(chunk["output"] for chunk in chunks if chunk.get("preliminary")) == "asking the carrier"


async def test_the_researcher_reads_before_it_reports_and_a_question_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = _fresh("research_agent")
    found = {"answer": "The water has to travel.", "sources": ["tides"]}
    script = Script(
        [call("search", "c1", word="tide")],
        [call("read", "c2", page="tides")],
        [call("final_result", "c3", answer="?", sources=[])],
        [call("final_result", "c4", **found)],
    )
    monkeypatch.setattr(desk.Research, "model", script.model)
    assert (await desk.main(["why", "late?"])).model_dump() == found
    assert script.said(1)[-1] == ["harbours", "tides"] and script.said(2)[-1] == desk.LIBRARY["tides"]
    assert "sources: List should have at least 1 item" in script.said(3)[-1]
    again = _fresh("research_agent")
    monkeypatch.setattr(again.Research, "model", script.model)
    assert (await again.main(["why", "late?"])).model_dump() == found
    assert len(script.asked) == 4
