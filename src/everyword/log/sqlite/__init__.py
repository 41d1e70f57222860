"""The log in one SQLite file: the default store. `store` is its public class.

Writing: `writer` gathers appends into one transaction. `transaction` fills it, with `leases`, `pending_events`,
`pending_rows`, `row_codec` and `bulk_insert`. `retention` and `stream_erasure` delete old events.
`checkpoints` moves the write-ahead log into the file.

Reading: `reader_pool` runs `queries` on two threads.

The file: `connection`, `migrations`, `lock`, `files` and `statements`. The SQL itself is in `sql/`.

Databases of agents (`self.sql`): `agent_databases`, `agent_database`, `sql_authorizer` and `view_source`.
"""
