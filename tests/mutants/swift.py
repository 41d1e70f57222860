"""Bugs that what is remembered for speed could have: paths, revisions, frames, chunks that travel together."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["SWIFT"]

REMEMBERED = (
    "tests/core/test_invariants.py"
    "::test_the_path_that_is_remembered_is_the_path_that_is_walked_and_no_change_of_it_goes_unnoticed"
)
STEERING = "tests/agents/test_steering.py"

SWIFT = [
    Mutant(
        "core/evolve.py",
        "def _removed(state: State, event: MessagesRemoved) -> None:\n    state.path = ()\n",
        "def _removed(state: State, event: MessagesRemoved) -> None:\n",
        REMEMBERED,
        "a path is remembered that leads through what was removed",
    ),
    Mutant(
        "core/evolve.py",
        "frozenset({AttemptStarted,",
        "frozenset({MessageEnded, AttemptStarted,",
        REMEMBERED,
        "the end of an answer does not reach the transcript",
    ),
    Mutant(
        "core/evolve.py",
        "        state.hooks_due.add(turn.id)\n",
        "        pass\n",
        REMEMBERED,
        "a hook that is due is never called",
    ),
    Mutant(
        "wire/chat.py",
        "        self._flowing = None\n        match event:",
        "        match event:",
        "tests/wire/test_recovering.py::test_who_asked_is_told_like_everybody_else",
        "a stream flows on past what happened to its turn",
    ),
    Mutant(
        "runtime/mailbox.py",
        "            if waiting.turn == emit.turn and waiting.attempt == emit.attempt:",
        "            if waiting.turn == emit.turn:",
        "tests/runtime/test_mailbox.py::test_chunks_never_pass_what_came_between_them",
        "chunks of a new attempt are taken for those of the old one",
    ),
    Mutant(
        "runtime/mailbox.py",
        "                if len(waiting.chunks) >= self._capacity:\n                    return False\n",
        "",
        "tests/runtime/test_mailbox.py::test_there_is_room_for_so_many_chunks_and_then_again_when_some_were_taken",
        "a runner that is faster than the disk fills the memory",
    ),
    Mutant(
        "core/accept.py",
        'if rules.policy.name != "steer" or turn.accepted.trusted:',
        'if rules.policy.name != "steer":',
        f"{STEERING}::test_a_turn_that_our_own_code_waits_for_is_not_cut_short",
        "who waits for an answer in code gets half of it",
    ),
    Mutant(
        "server/gathering.py",
        "    def close(self) -> None:\n        self.flush()\n",
        "    def close(self) -> None:\n",
        "tests/server/test_gathering.py::test_what_was_kept_back_is_written_before_the_end",
        "the last frames are lost when a socket is closed",
    ),
]
