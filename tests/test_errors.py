"""Which texts of exceptions clients may read."""

from __future__ import annotations

import pytest

from everyword import errors
from everyword.errors import BadInput, ChatError, ModelError, Rejected, SqlError, ToolError, public_text


@pytest.mark.parametrize("error", [ChatError("so"), ToolError("so"), ModelError("so"), Rejected("so"), BadInput("so")])
def test_a_text_that_was_written_for_clients_is_shown(error: Exception) -> None:
    assert public_text(error, "It failed.") == "so"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("so"),
        KeyboardInterrupt("so"),
        SqlError("so"),
        *(getattr(errors, name)("so") for name in ("UsageError", "Stalled", "CallPending", "BadChunk", "FoldError")),
        *(
            getattr(errors, name)("so")
            for name in ("NoJsonForm", "LogError", "LogCorrupt", "ClientError", "CallFailed")
        ),
    ],
)
def test_any_other_text_is_replaced_by_a_safe_sentence(error: BaseException) -> None:
    assert public_text(error, "It failed.") == "It failed."


def test_a_subclass_is_as_public_as_its_parent_unless_it_says_otherwise() -> None:
    class Told(ChatError):
        pass

    class Kept(ChatError):
        is_public = False

    assert public_text(Told("so"), "It failed.") == "so"
    assert public_text(Kept("so"), "It failed.") == "It failed."
