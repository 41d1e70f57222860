"""The protocol page shows what the code does."""

from __future__ import annotations

import enum
import re
import typing
from types import SimpleNamespace

import pytest

from everyword import events
from tests.architecture.tree import ROOT
from tools import diagram

PAGE = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")


def test_the_diagram_is_the_transitions_table() -> None:
    assert diagram.embed(PAGE, diagram.draw()) == PAGE, "run `make docs`"


def test_every_kind_of_event_is_explained_once() -> None:
    section = PAGE.partition("## 2. The events")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([a-z_.]+)` \|", section, re.MULTILINE)
    kinds = [kind.__struct_config__.tag for kind in typing.get_args(events.Event)]
    assert sorted(listed) == sorted(kinds)


def test_every_outcome_is_explained() -> None:
    assert [outcome.value for outcome in events.Outcome if f"`{outcome.value}`" not in PAGE] == []


def test_a_drawing_groups_events_that_lead_the_same_way() -> None:
    class Light(enum.Enum):
        RED = "red"
        GREEN = "green"

    table = {
        None: {_Tagged("switch.on"): Light.RED},
        Light.RED: {_Tagged("a"): Light.GREEN, _Tagged("b"): Light.GREEN},
        Light.GREEN: {},
    }
    assert diagram.draw(table).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> red: switch.on",
        "    red --> green: a, b",
        "    green --> [*]",
    ]


class _Tagged:
    """Stands for an event class: all that a drawing needs of one is its tag."""

    def __init__(self, tag: str) -> None:
        self.__struct_config__ = SimpleNamespace(tag=tag)


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="unable to place the drawing"):
        diagram.embed("# no markers here", "x")
