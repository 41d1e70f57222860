"""Seeded bugs of the message tree, of loading an agent, and of what it is to do next."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["LOADING"]

RESTORE = "tests/core/test_restore.py"
TRANSCRIPT = "tests/core/test_transcript.py"
TREE = "tests/core/test_tree.py"
WANTED = "tests/core/test_wanted.py"

LOADING = [
    Mutant(
        "core/tree.py",
        "            if self._nodes[node].id == message:\n                return node\n",
        "            if self._nodes[node].id == message:\n                break\n",
        f"{TREE}::test_a_message_id_is_looked_up_on_the_active_path_first",
        "a change goes to a branch that nobody looks at (B3)",
    ),
    Mutant(
        "core/restore.py",
        "AttemptInterrupted | Chunk | CallStarted | CallAnswered",
        "AttemptInterrupted | Chunk | CallStarted",
        f"{RESTORE}::test_an_agent_in_the_middle_of_everything_is_loaded_as_it_was",
        "an approval given before a crash is asked for again",
    ),
    Mutant(
        "core/restore.py",
        "        except BadMessage as exc:",
        "        except LookupError as exc:",
        f"{RESTORE}::test_a_message_that_cannot_be_read_is_reported_and_left_out",
        "one damaged message makes the whole agent unusable",
    ),
    Mutant(
        "core/transcript.py",
        "fold = MessageFold(message_id, base",
        'fold = MessageFold("", base',
        f"{TRANSCRIPT}::test_an_answer_is_seen_as_it_grows_under_the_id_that_it_will_keep",
        "an answer changes its id when it ends",
    ),
    Mutant(
        "core/wanted.py",
        "due or islice(questions, 1):",
        "due or questions:",
        f"{WANTED}::test_a_debounced_question_keeps_its_place",
        "a later question overtakes one that waits (R-22)",
    ),
]
