"""What `@tool` says about its approvals."""

from __future__ import annotations

from everyword.agents.tools.approval_options import ApprovalOptions


def test_a_summary_is_cut_and_has_only_characters_that_can_be_stored() -> None:
    options = ApprovalOptions(summary=lambda note: f"Send {note}").checked("send", needs_approval=True)
    assert options.details("k", "send", {"note": "x" * 1000, "to": "ann"}).summary == "Send " + "x" * 495
    assert options.details("k", "send", {"note": "\ud83d"}).summary == "Send ?"
