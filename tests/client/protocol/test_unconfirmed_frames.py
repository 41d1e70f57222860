from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from everyword.client.protocol.unconfirmed_frames import UnconfirmedFrames


@given(st.lists(st.one_of(st.just("command"), st.integers(0, 5)), max_size=30))
def test_exactly_the_unconfirmed_frames_are_sent_again_in_order(steps: list[Any]) -> None:
    """A number confirms the command at that place among the unconfirmed ones, if there is one."""
    unconfirmed, expected = UnconfirmedFrames("m"), dict[str, str]()
    for number, step in enumerate(steps):
        if step == "command":
            mark, frames = unconfirmed.command(f"frame {number}")
            assert [frames[0], json.loads(frames[1])["id"]] == [f"frame {number}", mark]
            expected[mark] = frames[0]
        elif step < len(expected):
            mark = list(expected)[step]
            assert unconfirmed.confirm(mark)
            del expected[mark]
            assert not unconfirmed.confirm(mark)
        assert unconfirmed.frames()[::2] == list(expected.values())
