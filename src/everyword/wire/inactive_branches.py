"""Turns whose branch is no longer shown while they stream: a client shows the old or the new answer, not both (R-5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..ids import NodeId
from . import frames
from .connection_turns import ConnectionTurn

__all__ = ["InactiveBranches"]


class InactiveBranches:
    """What one connection gets of turns that are not on the shown branch.

    A client that shows the beginning of such an answer gets the rest of it, and then the shown branch: it cannot be
    made to drop the answer before its end, and would show half of it until then.
    """

    def __init__(self, is_shown: Callable[[NodeId], bool], socket: str) -> None:
        self._is_shown, self._socket = is_shown, socket

    def follows(self, known: ConnectionTurn) -> bool:
        """True if the client shows the answer of a turn whose branch is no longer shown."""
        return (known.is_told or known.is_joined) and not known.is_hidden and not self._is_shown(known.node)

    def hides(self, known: ConnectionTurn, *, is_first: bool) -> bool:
        """True if the client gets only the end of a turn: a stream without its beginning is of no use."""
        is_told = known.is_told or known.is_joined
        if not is_told and not (is_first and self._is_shown(known.node)):
            known.is_hidden = True
        return known.is_hidden

    def forget(self, turns: Iterable[ConnectionTurn]) -> list[bytes]:
        """Return the frames after which the client no longer shows answers of left branches that it only watched.

        A client that leaves a branch has taken its answer from the list, and the stock hook would put that back with
        the next chunk or the end; after an error frame it does not. A client that reads the stream as its own would
        show the error.
        """
        followed = (each for each in turns if self.follows(each))
        watched = [each for each in followed if not each.is_joined and each.origin != self._socket]
        for each in watched:
            each.is_hidden = True
        return [frames.response(each.request, "", done=False, error=True) for each in watched]
