"""Whether a client that acknowledges a stream has asked for one (P-41)."""

from __future__ import annotations

from everyword.events import Outcome
from everyword.ids import RequestId
from everyword.wire.chat_view import NeedsReplay
from tests.wire.test_chat_view import Tab, accepted, chunk, ended, kinds, message_ended


def test_an_acknowledgement_is_awaited_if_the_client_has_probed_and_waits() -> None:
    """P-41: only then it folds what it is replayed into a message of its own."""
    tab = Tab(accepted(origin="other"), chunk(0))
    assert tab.acknowledges() == NeedsReplay(RequestId("r1"))
    tab.asks()
    assert tab.acknowledges() == NeedsReplay(RequestId("r1"), is_awaited=True)
    assert tab.acknowledges() == NeedsReplay(RequestId("r1"), is_awaited=True), "it may begin anew twice"
    tab.happens(message_ended(), ended(), accepted(2, origin="other"), chunk(0, 2))
    assert tab.acknowledges("r2") == NeedsReplay(RequestId("r2")), "it has not probed since"


def test_a_client_that_was_told_that_there_is_nothing_awaits_nothing() -> None:
    tab = Tab()
    assert tab.asks()[0]["reason"] == "idle"
    tab.happens(accepted(origin="other"), chunk(0))
    assert tab.acknowledges() == NeedsReplay(RequestId("r1"))
    tab = Tab(accepted(origin="other"))
    assert kinds(tab.asks()) == ["pending"]
    assert "resume_none" in kinds(tab.happens(ended(Outcome.ABORTED)))
    tab.happens(accepted(2, origin="other"), chunk(0, 2))
    assert tab.acknowledges("r2") == NeedsReplay(RequestId("r2"))


def test_a_probe_counts_for_one_stream() -> None:
    tab = Tab(accepted(origin="other"), chunk(0), message_ended(), ended(Outcome.ERROR, error="boom"))
    assert kinds(tab.asks()) == ["resuming"]
    assert tab.acknowledges() == NeedsReplay(RequestId("r1"), is_awaited=True)
    tab.happens(accepted(2, origin="other"), chunk(0, 2))
    assert tab.acknowledges("r2") == NeedsReplay(RequestId("r2"))
