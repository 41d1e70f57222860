-- The chunks of one turn in one batch share a row: `seq` is that of the last one, `more` the number of chunks before it.
-- The `body` of the row has `bodies`, starting at `index`, where that of a single chunk has `body`. A body that is a text
-- stands for the previous chunk with this text as its delta.
ALTER TABLE event ADD COLUMN more INTEGER NOT NULL DEFAULT 0;

DROP VIEW cf_ai_chat_stream_chunks;

-- The chunks of all streams; `body` is the chunk as JSON text, NULL where the stored bytes are damaged.
CREATE VIEW cf_ai_chat_stream_chunks (id, stream_id, body, chunk_index, created_at, agent) AS
SELECT
  e.agent || ':' || (e.seq - e.more + c.key),
  t.agent || ':' || t.turn,
  CASE WHEN e.more = 0 OR c.type <> 'text' THEN c.value ELSE (
    SELECT json_set(
      p.value, iif(json_type(p.value, '$.delta') IS NULL, '$.inputTextDelta', '$.delta'), c.value
    )
    FROM json_each(CAST(e.body AS TEXT), '$.bodies') AS p
    WHERE p.key < c.key AND p.type = 'object' ORDER BY p.key DESC LIMIT 1
  ) END,
  CASE WHEN json_valid(CAST(e.body AS TEXT)) THEN json_extract(CAST(e.body AS TEXT), '$.index') + c.key END,
  e.at,
  a.id
FROM agent AS a
JOIN turn AS t ON t.agent = a.key
JOIN event AS e
  ON e.agent = t.agent AND e.turn = t.turn AND e.kind = 'chunk'
  AND e.id BETWEEN coalesce(t.first_id, 0) AND coalesce(t.last_id, 9223372036854775807)
JOIN json_each(
  CASE
    WHEN NOT json_valid(CAST(e.body AS TEXT)) THEN '[null]'
    WHEN e.more = 0 THEN json_array(json_extract(CAST(e.body AS TEXT), '$.body'))
    WHEN json_type(CAST(e.body AS TEXT), '$.bodies') = 'array' THEN json_extract(CAST(e.body AS TEXT), '$.bodies')
    ELSE '[null]'
  END
) AS c
WHERE t.kind <> 'rsm'
  AND t.status NOT IN ('accepted', 'skipped')
  AND t.generation = coalesce(a.generation, t.generation);
