from __future__ import annotations

from everyword.messages.message import Part
from everyword.messages.open_parts import OpenInput, OpenPart


def test_text_is_joined_at_an_access_and_grows_on() -> None:
    part: Part = {"type": "text", "text": ""}
    open_part = OpenPart(part, 0)
    open_part.join()
    assert part["text"] == ""
    open_part.pieces += ["a", "b"]
    open_part.join()
    open_part.pieces.append("c")
    assert part["text"] == "ab"
    open_part.join()
    assert part["text"] == "abc"
    assert open_part.pieces == ["abc"]


def test_an_input_is_parsed_only_when_pieces_wait() -> None:
    part: Part = {"type": "tool-x"}
    open_input = OpenInput("x", {}, is_dynamic=False, text='{"a":')
    open_input.part = part
    open_input.settle()
    assert part == {"type": "tool-x"}
    open_input.pieces.append("1")
    open_input.pending = True
    open_input.settle()
    assert part == {"type": "tool-x", "rawInput": '{"a":1', "input": {"a": 1}}


def test_an_input_that_became_unreadable_is_taken_back() -> None:
    open_input = OpenInput("x", {}, is_dynamic=False)
    open_input.part = {"type": "tool-x", "input": {}}
    open_input.pieces.append("garbage")
    open_input.pending = True
    open_input.settle()
    assert open_input.part == {"type": "tool-x", "rawInput": "garbage"}


def test_text_inputs_are_not_parsed() -> None:
    open_input = OpenInput("x", {"inputEncoding": "text"}, is_dynamic=False, text='{"a":1}')
    assert open_input.values() == {"rawInput": '{"a":1}', "inputEncoding": "text", "input": '{"a":1}'}
