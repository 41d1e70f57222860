"""The list of traps is whole, and what it says shows them exists."""

from __future__ import annotations

import pytest

from tools.traps import PAGE, TRAPS, Trap, missing_tests, read_page, summary


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_every_trap_is_listed_once_and_in_order() -> None:
    assert [trap.number for trap in read_page(page())] == list(range(1, TRAPS + 1))


def test_every_test_that_a_trap_names_exists() -> None:
    assert missing_tests(read_page(page())) == []


def test_the_counts_on_the_page_are_right() -> None:
    assert f"**{summary(read_page(page()))}**" in page()


def test_nothing_is_left_out_without_a_reason() -> None:
    traps = read_page(page())
    assert [trap.number for trap in traps if trap.kind in ("n/a", "open") and len(trap.why.split()) < 3] == []


def test_a_test_that_does_not_exist_is_reported() -> None:
    gone = Trap(1, "x", "tested", tests=(("tests/docs/test_traps.py", "test_gone"), ("tests/gone.py", "test_gone")))
    assert missing_tests([gone]) == ["trap 1: tests/docs/test_traps.py::test_gone", "trap 1: tests/gone.py::test_gone"]


@pytest.mark.parametrize("shown", ["open", "open:", "n/a", "soon", "`tests/a.py`", "`tests/a.py::test_x`, maybe"])
def test_a_row_that_says_nothing_usable_is_refused(shown: str) -> None:
    with pytest.raises(ValueError, match="unable to read trap 7"):
        read_page(f"| 7 | right | {shown} |\n")


def test_a_row_may_name_several_tests_or_a_reason() -> None:
    rows = "| 1 | a | `tests/a.py::test_x`<br>`tests/b/c.py::test_y` |\n"
    rows += "| 2 | b | open: not yet |\n| 3 | c | client-side |\n"
    traps = read_page(rows)
    assert traps[0].tests == (("tests/a.py", "test_x"), ("tests/b/c.py", "test_y"))
    assert [(trap.kind, trap.why) for trap in traps[1:]] == [("open", "not yet"), ("client-side", "")]
    assert summary(traps) == f"tested 1, client-side 1, n/a 0, open 1 of {TRAPS}"
