"""Seeded bugs of the agents' own databases and of managed streams."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["STREAMS"]

SQL = "tests/agents/test_sql.py"
MANAGER = "tests/agents/test_stream_manager.py"
SOCKETS = "tests/agents/test_stream_manager_sockets.py"
ERASING = "tests/log/test_stream_erasing.py"
FOLDS = "tests/agents/test_stream_manager_fold.py::test_whoever_watched_any_part_ends_with_what_the_last_attempt_said"

STREAMS = [
    Mutant(
        "log/sqlite/sql_authorizer.py",
        '(base == "temp" and (action in _WRITES or action == sqlite3.SQLITE_ALTER_TABLE))',
        "False",
        f"{SQL}::test_a_statement_that_reaches_beyond_the_database_is_refused[delete from messages]",
        "an agent forges what its own log says",
    ),
    Mutant(
        "log/sqlite/sql_authorizer.py",
        "    if action in _TRANSACTIONS:\n",
        "    if action < 0:\n",
        f"{SQL}::test_a_statement_that_reaches_beyond_the_database_is_refused[begin]",
        "a transaction stays open for whoever comes next",
    ),
    Mutant(
        "log/sqlite/agent_database.py",
        "                if self._copied.get(name) != version:\n",
        "                if name not in self._copied:\n",
        f"{SQL}::test_a_view_shows_what_was_committed_before_it_was_asked",
        "a view shows the log as it once was",
    ),
    Mutant(
        "log/sqlite/agent_databases.py",
        "                future, work = queue.waiting.popleft()\n",
        "                future, work = queue.waiting.pop()\n",
        f"{SQL}::test_statements_run_in_the_order_in_which_they_were_asked",
        "statements overtake each other",
    ),
    Mutant(
        "log/views.py",
        "        if turn.generation == generation\n        and ",
        "        if ",
        f"{MANAGER}::test_clearing_empties_the_store_and_leaves_the_state_to_the_caller",
        "what was cleared can still be queried",
    ),
    Mutant(
        "log/sqlite/sql/queries.sql",
        "AND kind = 'rsm' AND ended_at <= ?2 AND coalesce",
        "AND kind = 'rsm' AND ?2 > 0 AND coalesce",
        f"{ERASING}::test_only_old_managed_streams_lose_their_chunks_and_each_is_counted_once",
        "streams that are still wanted lose their chunks",
    ),
    Mutant(
        "messages/managed_stream.py",
        "if index < piece.index}",
        "if index <= piece.index}",
        FOLDS,
        "a word that was taken back stays",
    ),
    Mutant(
        "agents/stream_manager.py",
        "        self._restarts += 1\n",
        "",
        FOLDS,
        "an old history brings back what was taken back",
    ),
    Mutant(
        "agents/stream_manager.py",
        "        bodies = self._cut(min(self._inherited)) if self._inherited else []\n",
        "        bodies: list[bytes] = []\n",
        FOLDS,
        "what a dead attempt said beyond the answer's end stays",
    ),
    Mutant(
        "agents/stream_manager.py",
        "        await self._try_to_sync()\n        if found.outcome is None:\n",
        "        if found.outcome is None:\n",
        f"{SOCKETS}::test_the_state_that_names_a_stream_comes_before_its_first_chunk_and_the_message_after_its_end",
        "chunks come before anybody knows their stream",
    ),
    Mutant(
        "core/decide.py",
        "    return [*last, *put, *before, replace(ended, chunks=ended.chunks + len(last))]\n",
        "    return [*last, *before, replace(ended, chunks=ended.chunks + len(last))]\n",
        f"{MANAGER}::test_a_question_is_answered_chunk_by_chunk_and_the_whole_answer_is_kept",
        "a stream ends well and leaves no message",
    ),
    Mutant(
        "wire/streams.py",
        "        return [] if isinstance(event, _Conversation) else self._others.happened(committed)\n",
        "        return self._others.happened(committed)\n",
        f"{SOCKETS}::test_an_agent_that_does_not_chat_says_nothing_of_a_chat",
        "a page that knows no chat is told of one",
    ),
]
