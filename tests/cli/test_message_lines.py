"""Messages on a terminal: stored parts of any shape are shown or passed over, and never fatal."""

from __future__ import annotations

import io

from everyword.cli.message_lines import render_message, title_of
from everyword.cli.output import Output
from everyword.messages.message import UIMessage
from tests.messages.near_misses import NEAR_MISSES


def test_no_part_keeps_the_rest_of_a_message_from_being_shown() -> None:
    output = Output(out=io.StringIO())
    for part in NEAR_MISSES:
        message = UIMessage.from_dict(
            {"id": "m", "role": "user", "parts": [part, {"type": "text", "text": "the rest"}]}
        )
        for is_whole in (True, False):
            assert "the rest" in "\n".join(render_message(output, message, is_whole=is_whole)), part
        assert "the rest" in title_of(message), part
