"""Turns whose branch was left while they spoke: a client shows the old answer or the new one, never both (R-5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..ids import NodeId
from . import frames

if TYPE_CHECKING:
    from .chat import KnownTurn

__all__ = ["LeftBranches"]


class LeftBranches:
    """What one connection is told of turns that are not on the branch that is shown.

    A client that shows the beginning of such an answer is told the rest of it, and then the branch that is shown: it
    cannot be made to drop the answer before its end, and would show a half of it until then.
    """

    def __init__(self, is_shown: Callable[[NodeId], bool], is_mine: Callable[[str | None], bool]) -> None:
        self._is_shown, self._is_mine = is_shown, is_mine

    def follows(self, known: KnownTurn) -> bool:
        """True if the client shows the answer of a turn whose branch was left."""
        return known.has_chunks and not known.is_hidden and self._is_told(known) and not self._is_shown(known.node)

    def hides(self, known: KnownTurn) -> bool:
        """True if the client is told nothing of a turn but its end: a stream without its beginning helps nobody."""
        if not known.is_hidden and not self._is_told(known) and not self._is_shown(known.node):
            known.is_hidden = True
        return known.is_hidden

    def forget(self, turns: Iterable[KnownTurn]) -> list[bytes]:
        """Return the frames after which the client no longer shows answers of left branches that it only watched.

        A client that leaves a branch has taken its answer from the list, and the stock hook would put that back with
        the next chunk or the end; after an error frame it does not. A client that reads the stream as its own would
        show the error.
        """
        watched = [
            each for each in turns if self.follows(each) and not each.is_joined and not self._is_mine(each.origin)
        ]
        for each in watched:
            each.is_hidden = True
        return [frames.response(each.request, "", done=False, error=True) for each in watched]

    def _is_told(self, known: KnownTurn) -> bool:
        return known.is_told or known.is_joined or self._is_mine(known.origin)
