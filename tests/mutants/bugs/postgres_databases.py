"""Seeded bugs of the agents' own databases on PostgreSQL."""

from __future__ import annotations

from tests.mutants.bug import Bug
from tests.mutants.changes import always, drop, never, replace
from tests.mutants.places import sql

__all__ = ["BUGS"]

DATABASES = "tests/log/postgres/test_agent_databases.py"
SQL = "tests/agents/test_sql.py"

BUGS = [
    Bug(
        "sql:put_pages_1",
        "N-1",
        sql(
            "if not everyword.holds_lease_1(p_node, p_key, p_epoch, p_root, p_term) then return false; end if;",
            "",
        ),
        f"{DATABASES}::test_an_old_owner_cannot_write_after_a_takeover[release-open]",
        "an old owner writes into the database of the new one",
    ),
    Bug(
        "sql:declare_gone_1",
        "N-2",
        sql(
            "update everyword.fence set is_gone = true where node = p_node",
            "update everyword.fence set is_gone = true where node = p_node and lane = 0",
        ),
        f"{DATABASES}::test_a_node_that_was_declared_gone_writes_no_pages",
        "a dead node's statement is written after it was declared gone",
    ),
    Bug(
        "sql:put_pages_1",
        "pages of one image",
        sql("agent = p_key and generation = p_opening", "agent = p_key"),
        f"{DATABASES}::test_a_write_of_an_earlier_opening_is_refused",
        "a late write mixes its pages with those of a newer image",
    ),
    Bug(
        "sql:open_database_1",
        "pages of one image",
        sql("generation = d.generation + 1", "generation = d.generation"),
        f"{DATABASES}::test_a_write_of_an_earlier_opening_is_refused",
        "a late write mixes its pages with those of a newer image",
    ),
    Bug(
        "sql:destroy_1",
        "a destroyed agent leaves nothing",
        sql("delete from everyword.database where agent = any (keys);", ""),
        f"{DATABASES}::test_a_destroyed_agent_leaves_no_pages",
        "a write that is under way brings pages of a destroyed agent back",
    ),
    Bug(
        "SqliteAgentDatabases._save",
        "nothing is shown that is not stored",
        drop("self._close(...)"),
        f"{DATABASES}::test_a_refused_write_leaves_the_database_as_it_was",
        "statements see what a failed statement has written",
    ),
    Bug(
        "SqliteAgentDatabases._save",
        "the memory of open databases is limited",
        drop("self._free_memory()"),
        f"{DATABASES}::test_open_databases_take_a_limited_amount_of_memory",
        "databases that grow while they are open take all memory of the node",
    ),
    Bug(
        "SqliteAgentDatabases._run",
        "nothing is shown that is not stored",
        never("$database.may_have_written"),
        f"{SQL}::test_a_database_outlives_the_process_where_its_log_does[postgres]",
        "what statements write is lost with the process",
    ),
    Bug(
        "SqliteAgentDatabases._open",
        "N-1",
        never("$queue.database is not None and $queue.right != $right"),
        f"{DATABASES}::test_a_database_is_opened_again_under_a_new_lease",
        "an agent that was loaded again cannot write its database",
    ),
    Bug(
        "SqlAuthorizer._allow",
        "every write is stored",
        replace("$action not in _READS", "$action == sqlite3.SQLITE_DELETE"),
        f"{DATABASES}::test_reading_stores_nothing",
        "a statement that only creates a table is not stored",
    ),
    Bug(
        "Ownership.unloaded",
        "SQL statements run in order",
        never("$closed is not None and not $closed.done()"),
        f"{SQL}::test_statements_that_wait_when_their_agent_is_unloaded_are_run[postgres]",
        "statements that wait when their agent is unloaded are refused",
    ),
    Bug(
        "SqlConnections._call",
        "an outcome that is not known is said to be so",
        always("$connection.is_open and hasattr(...)"),
        f"{DATABASES}::test_a_connection_that_is_lost_during_a_write_leaves_its_outcome_open",
        "a statement is said not to be written, and is",
    ),
    Bug(
        "PostgresRetention.prune",
        "views show the committed log",
        never("$pruned.chunks or $pruned.states"),
        f"{DATABASES}::test_a_view_does_not_show_chunks_that_retention_deleted",
        "a view shows chunks that retention has deleted",
    ),
    Bug(
        "sql:erase_streams_1",
        "views show the committed log",
        sql("if erased > 0 then update everyword.agent set head = head where id = p_agent; end if;", ""),
        f"{DATABASES}::test_a_view_does_not_show_streams_that_were_erased",
        "a view shows streams that the agent has erased",
    ),
]
