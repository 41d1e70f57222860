-- The views of the log in an agent's own database: temporary tables, in memory, that only the framework fills.

-- name: messages
CREATE TEMP TABLE IF NOT EXISTS messages (id TEXT, role TEXT, content TEXT, created_at INTEGER);

-- name: stream_metadata
CREATE TEMP TABLE IF NOT EXISTS stream_metadata (
  id TEXT, message_id TEXT, status TEXT, total_chunks INTEGER, created_at INTEGER, completed_at INTEGER, error TEXT
);

-- name: stream_chunks
CREATE TEMP TABLE IF NOT EXISTS stream_chunks (
  id TEXT, stream_id TEXT, content TEXT, chunk_index INTEGER, created_at INTEGER
);

-- name: cf_ai_chat_agent_messages
CREATE TEMP TABLE IF NOT EXISTS cf_ai_chat_agent_messages (id TEXT, message TEXT, created_at INTEGER);

-- name: cf_ai_chat_stream_metadata
CREATE TEMP TABLE IF NOT EXISTS cf_ai_chat_stream_metadata (
  id TEXT, request_id TEXT, status TEXT, created_at INTEGER, completed_at INTEGER, error_message TEXT
);

-- name: cf_ai_chat_stream_chunks
CREATE TEMP TABLE IF NOT EXISTS cf_ai_chat_stream_chunks (
  id TEXT, stream_id TEXT, body TEXT, chunk_index INTEGER, created_at INTEGER
);

-- name: empty
DELETE FROM temp.{};

-- name: fill
INSERT INTO temp.{} VALUES ({});
