"""What a new connection is told of open turns."""

from __future__ import annotations

from everyword.ids import Seq
from everyword.server.chat_snapshot import _snapshot
from tests.core.histories import user
from tests.core.stage import open_text, stage


def test_a_new_connection_is_not_taken_for_the_asker_of_an_open_turn() -> None:
    """Serials of sockets begin anew with each process: an open turn's may be that of the first one that comes."""
    told = stage()
    told.ask("r1", user("u1"), origin="s1")
    told.begin(1)
    told.emit(1, *open_text("half"))
    (known,) = _snapshot(told.state, Seq(1)).open
    assert (known.request, known.has_chunks, known.origin) == ("r1", True, None)
