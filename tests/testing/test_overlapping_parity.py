"""`assert_parity` with plays in which things overlap: no cut, crash or other order is visible."""

from __future__ import annotations

import pytest

from everyword import AIChatAgent, Turn
from everyword.errors import UsageError
from everyword.testing import Edit, InAnotherTab, Meanwhile, Regenerate, StopAnswer, assert_parity
from everyword.testing.actions import ScriptAction


class Echo(AIChatAgent):
    """Repeats the question, word by word, and goes on where it was cut off."""

    async def on_chat_message(self, turn: Turn) -> object:
        asked = next(message for message in reversed(self.messages) if message.role == "user")
        said = self.messages[-1].text if self.messages[-1].role == "assistant" else ""
        for number in range(1, 4):
            word = f"{asked.text} {number}. "
            if said.startswith(word):
                said = said.removeprefix(word)
            else:
                yield word


PLAYS: dict[str, ScriptAction] = {
    "two questions": Meanwhile("one", "two"),
    "a question of another tab": Meanwhile("one", InAnotherTab("two")),
    "three questions": Meanwhile("one", InAnotherTab("two"), "three", after=2),
    "an edit": Meanwhile("one", Edit("another")),
    "an edit in another tab": Meanwhile("one", InAnotherTab(Edit("another"))),
    "another answer, asked for in another tab": Meanwhile("one", InAnotherTab(Regenerate())),
    "a stop": Meanwhile("one", StopAnswer()),
}


@pytest.mark.parametrize("play", PLAYS)
async def test_overlapping_turns_look_the_same_to_every_client(play: str) -> None:
    tried = await assert_parity(Echo, PLAYS[play], every=3, is_seamless=False)
    assert tried.comparisons > 20 and tried.kills > 2


def test_a_play_that_cannot_overlap_is_refused_with_a_sentence() -> None:
    with pytest.raises(UsageError, match="say what is to be done meanwhile"):
        Meanwhile("one")
    with pytest.raises(UsageError, match="a stop has no answer"):
        Meanwhile(StopAnswer(), "two")
