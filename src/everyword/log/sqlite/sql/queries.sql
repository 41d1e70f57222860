-- All statements of the store, by name. Parameters are numbered in the order of their tuple.

-- name: append_event
INSERT INTO event (id, agent, seq, at, kind, turn, back, body, more) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9);

-- name: put_mark
INSERT INTO mark (agent, seq, id) VALUES (?1, ?2, ?3);

-- name: last_arrival
SELECT coalesce(max(id), 0) FROM event;

-- name: store_row
-- A damaged value counts as 0.
SELECT iif(typeof(scanned) = 'integer', scanned, 0), iif(typeof(pruned) = 'integer', pruned, 0) FROM store;

-- name: set_scanned
UPDATE store SET scanned = ?1;

-- name: set_pruned
UPDATE store SET pruned = ?1;

-- name: overwrite_failed_commit
-- Any commit overwrites the pages that a failed one may have left behind the end of the write-ahead log.
UPDATE store SET sealed = sealed + 1;

-- name: newest_events
-- The last event of every log that grew between two arrivals.
SELECT agent, max(seq), max(id) FROM event WHERE id > ?1 AND id <= ?2 GROUP BY agent;

-- name: set_head
UPDATE agent SET head = ?2, head_id = ?3 WHERE key = ?1;

-- name: take_lease
INSERT INTO agent (id, epoch) VALUES (?1, 1) ON CONFLICT (id) DO UPDATE SET epoch = epoch + 1;

-- name: lease
SELECT a.key, a.epoch, a.head, a.head_id, w.at, coalesce((SELECT max(t.turn) FROM turn AS t WHERE t.agent = a.key), 0)
FROM agent AS a LEFT JOIN wake AS w ON w.agent = a.key WHERE a.id = ?1;

-- name: running
SELECT turn FROM turn INDEXED BY turn_open
WHERE agent = ?1 AND ended_at IS NULL AND status IN ('running', 'cancelling') AND kind NOT IN ('stream', 'rsm');

-- name: put_agent
UPDATE agent SET generation = ?2, leaf = ?3, last_turn = ?4, last_node = ?5 WHERE key = ?1;

-- name: put_agents
-- The same for many agents. For one agent it takes four times as long as put_agent.
UPDATE agent SET generation = new.column2, leaf = new.column3, last_turn = new.column4, last_node = new.column5
FROM (VALUES (?1, ?2, ?3, ?4, ?5)) AS new WHERE agent.key = new.column1;

-- name: put_turn
-- The columns that describe the accepted turn are never updated: an index has its request. `first_*` are given while no
-- chunk of the turn is stored: its chunks then start in this batch or later.
INSERT INTO turn (
  agent, turn, request, kind, generation, node, message_id, status, accepted, accepted_at, attempt, chunks, reason, error,
  detail, finish_reason, usage, ended_at, hook_due, first_seq, first_id, last_seq, last_id
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)
ON CONFLICT (agent, turn) DO UPDATE SET
  node = excluded.node, message_id = excluded.message_id, status = excluded.status, accepted = excluded.accepted,
  attempt = excluded.attempt, chunks = excluded.chunks, reason = excluded.reason, error = excluded.error,
  detail = excluded.detail, finish_reason = excluded.finish_reason, usage = excluded.usage,
  ended_at = excluded.ended_at, hook_due = excluded.hook_due,
  first_seq = coalesce(excluded.first_seq, first_seq),
  first_id = coalesce(excluded.first_id, first_id),
  last_seq = coalesce(last_seq, excluded.last_seq),
  last_id = coalesce(last_id, excluded.last_id);

-- name: put_message
INSERT INTO message (agent, node, parent, id, role, body, draft, at, event, start, size)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (agent, node) DO UPDATE SET
  parent = excluded.parent, id = excluded.id, role = excluded.role, body = excluded.body, draft = excluded.draft,
  at = excluded.at, event = excluded.event, start = excluded.start, size = excluded.size;

-- name: remove_message
DELETE FROM message WHERE agent = ?1 AND node = ?2;

-- name: clear_messages
DELETE FROM message WHERE agent = ?1;

-- name: put_kept
INSERT INTO kept (agent, kind, key, body) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (agent, kind, key) DO UPDATE SET body = excluded.body;

-- name: remove_kept
DELETE FROM kept WHERE agent = ?1 AND kind = ?2 AND key = ?3;

-- name: clear_kept
DELETE FROM kept WHERE agent = ?1;

-- name: kept
SELECT kind, key, body FROM kept WHERE agent = ?1 ORDER BY kind, key;

-- name: clear_turns
DELETE FROM turn WHERE agent = ?1;

-- name: clear_agent
UPDATE agent SET generation = NULL, leaf = NULL, last_turn = NULL, last_node = NULL WHERE key = ?1;

-- name: clear_marks
DELETE FROM mark WHERE agent = ?1;

-- name: erase_events
-- Every stored event is the agent's head (arrival ?2), or has a mark, or comes right before a stored event of its log.
DELETE FROM event WHERE id IN (
  WITH RECURSIVE step (id, back) AS (
    SELECT e.id, e.back FROM event AS e
    WHERE e.agent = ?1 AND e.id IN (SELECT m.id FROM mark AS m WHERE m.agent = ?1 UNION ALL SELECT ?2)
    UNION
    SELECT e.id, e.back FROM step AS s CROSS JOIN event AS e ON e.id = s.id - s.back
    WHERE s.back > 0 AND e.agent = ?1
  )
  SELECT id FROM step
);

-- name: erase_agent
-- The row stays for its epoch, which fences the holders of old leases.
UPDATE agent SET epoch = epoch + 1, head = 0, head_id = 0, generation = NULL, leaf = NULL, last_turn = NULL,
  last_node = NULL, state_id = 0, states_gone = 0
WHERE key = ?1;

-- name: turn_spans
SELECT turn, first_seq, first_id, last_seq, last_id FROM turn WHERE agent = ?1;

-- name: put_wake
INSERT INTO wake (agent, at) VALUES (?1, ?2) ON CONFLICT (agent) DO UPDATE SET at = excluded.at;

-- name: remove_wake
DELETE FROM wake WHERE agent = ?1;

-- name: agent_by_id
SELECT key, head, head_id, generation, leaf, last_turn, last_node FROM agent WHERE id = ?1;

-- name: agents
SELECT key, id, head FROM agent ORDER BY key;

-- name: agents_between
SELECT key, id, head FROM agent WHERE id >= ?1 AND id < ?2 ORDER BY key;

-- name: agents_after
SELECT key, id, head FROM agent WHERE id >= ?1 AND id > ?2 ORDER BY id LIMIT ?3;

-- name: marks_after
SELECT seq, id FROM mark WHERE agent = ?1 AND seq > ?2 AND seq < ?3 ORDER BY seq LIMIT ?4;

-- name: walk
-- The events of one agent from arrival ?2 back to the row with the event after seq ?3, newest first. Ends early where
-- retention has deleted events.
WITH RECURSIVE step (id, back, first) AS (
  SELECT id, back, seq - more FROM event WHERE id = ?2 AND agent = ?1
  UNION ALL
  SELECT e.id, e.back, e.seq - e.more
  FROM step AS s CROSS JOIN event AS e ON e.id = s.id - s.back
  WHERE s.back > 0 AND s.first > ?3 + 1 AND e.agent = ?1
)
SELECT e.more, e.seq, e.at, e.kind, e.turn, e.body FROM step AS s CROSS JOIN event AS e ON e.id = s.id;

-- name: walk_places
-- The same rows without their bodies: a reader of one page reads the bodies one by one, until the page is full.
WITH RECURSIVE step (id, back, first) AS (
  SELECT id, back, seq - more FROM event WHERE id = ?2 AND agent = ?1
  UNION ALL
  SELECT e.id, e.back, e.seq - e.more
  FROM step AS s CROSS JOIN event AS e ON e.id = s.id - s.back
  WHERE s.back > 0 AND s.first > ?3 + 1 AND e.agent = ?1
)
SELECT e.more, e.seq, e.id FROM step AS s CROSS JOIN event AS e ON e.id = s.id;

-- name: event_at
SELECT at, kind, turn, body FROM event WHERE id = ?1;

-- name: event_time
SELECT at FROM event WHERE id = ?1;

-- name: turn_span
SELECT coalesce(first_seq, 1), last_seq FROM turn WHERE agent = ?1 AND turn = ?2;

-- name: open_span
SELECT min(coalesce(first_seq, 1)) FROM turn INDEXED BY turn_open WHERE agent = ?1 AND ended_at IS NULL;

-- name: turns_to_load
-- The open turns and the newest ?2 ended ones.
SELECT turn, request, kind, generation, node, message_id, status, accepted, accepted_at, attempt, chunks, reason, error,
  detail, finish_reason, usage, ended_at, hook_due
FROM turn INDEXED BY turn_open WHERE agent = ?1 AND ended_at IS NULL
UNION ALL
SELECT * FROM (
  SELECT turn, request, kind, generation, node, message_id, status, accepted, accepted_at, attempt, chunks, reason, error,
    detail, finish_reason, usage, ended_at, hook_due
  FROM turn WHERE agent = ?1 AND ended_at IS NOT NULL ORDER BY turn DESC LIMIT ?2
)
ORDER BY 1;

-- name: newest_turns
SELECT turn, request, kind, generation, node, message_id, status, accepted, accepted_at, attempt, chunks, reason, error,
  detail, finish_reason, usage, ended_at, hook_due
FROM turn WHERE agent = ?1 ORDER BY turn DESC LIMIT ?2;

-- name: turn_by_request
SELECT turn, request, kind, generation, node, message_id, status, accepted, accepted_at, attempt, chunks, reason, error,
  detail, finish_reason, usage, ended_at, hook_due
FROM turn WHERE agent = ?1 AND request = ?2;

-- name: messages
SELECT m.node, m.parent, m.id, m.role,
  iif(m.event IS NULL, m.body, (
    SELECT substr(CAST(e.body AS BLOB), m.start + 1, m.size) FROM event AS e WHERE e.id = m.event AND e.agent = m.agent
  )),
  m.draft, m.at
FROM message AS m WHERE m.agent = ?1 ORDER BY m.node;

-- name: due
SELECT a.id, w.at FROM (
  SELECT agent, at FROM wake WHERE at BETWEEN 0 AND ?1
  UNION ALL
  SELECT agent, at FROM woken_to_run WHERE ?1 >= 0
) AS w CROSS JOIN agent AS a ON a.key = w.agent ORDER BY w.at, w.agent LIMIT ?2;

-- name: next_wake
SELECT min(at) FROM (
  SELECT min(at) AS at FROM wake WHERE at >= 0
  UNION ALL
  SELECT min(at) FROM woken_to_run
);

-- name: create_doomed
-- The events that one slice of retention deletes; in memory, for the writer only.
CREATE TEMP TABLE doomed (
  id INTEGER PRIMARY KEY, agent INTEGER NOT NULL, seq INTEGER NOT NULL, before INTEGER NOT NULL,
  events INTEGER NOT NULL,  -- number of events in the row
  size INTEGER NOT NULL,    -- its bytes
  place INTEGER NOT NULL,   -- the arrival at which the sweep decided to delete it
  is_state INTEGER NOT NULL
);

-- name: first_event_after
SELECT id, at FROM event WHERE id > ?1 ORDER BY id LIMIT 1;

-- name: doom
-- Select the first ?4 events to delete, or fewer if they have more than ?5 bytes; a packed row is deleted as a whole.
-- A state is deleted when the sweep reaches the next state of its agent: it is the previous state in this slice, or the
-- one that an earlier slice kept. A slice that is swept again may have states before the kept one; they are deleted too.
-- Until version 5 the body of a message could be in the event of a state: such an event stays.
INSERT INTO doomed (id, agent, seq, before, events, size, place, is_state)
SELECT id, agent, seq, before, events, size, place, is_state FROM (
  SELECT *, sum(events) OVER (ORDER BY place) AS so_far, sum(size) OVER (ORDER BY place) AS bytes FROM (
    SELECT e.id, e.agent, e.seq, e.id - e.back AS before, e.more + 1 AS events, length(e.body) AS size, e.id AS place,
      0 AS is_state
    FROM event AS e CROSS JOIN turn AS t ON t.agent = e.agent AND t.turn = e.turn
    WHERE e.id > ?1 AND e.id <= ?2 AND e.kind = 'chunk' AND t.kind <> 'rsm' AND t.ended_at < ?3
    UNION ALL
    SELECT o.id, o.agent, o.seq, o.id - o.back, 1, length(o.body), s.place, 1
    FROM (
      SELECT e.agent, e.id AS place, CASE
          WHEN e.id < a.state_id THEN e.id
          WHEN e.id > a.state_id THEN max(a.state_id, lag(e.id, 1, 0) OVER (PARTITION BY e.agent ORDER BY e.id))
        END AS superseded
      FROM event AS e CROSS JOIN agent AS a ON a.key = e.agent
      WHERE e.id > ?1 AND e.id <= ?2 AND e.kind = 'state.set' AND e.at < ?3
    ) AS s CROSS JOIN event AS o ON o.id = s.superseded AND o.agent = s.agent
    WHERE o.id NOT IN (
      SELECT m.event FROM message AS m WHERE m.event IS NOT NULL
      AND m.agent IN (SELECT e.agent FROM event AS e WHERE e.id > ?1 AND e.id <= ?2 AND e.kind = 'state.set')
    )
  )
) WHERE so_far - events < ?4 AND bytes - size < ?5;

-- name: pass_states
-- The states up to ?2 were swept: the newest of them stays until the sweep reaches the next one.
UPDATE agent SET state_id = new.id FROM (
  SELECT e.agent, max(e.id) AS id FROM event AS e
  WHERE e.id > ?1 AND e.id <= ?2 AND e.kind = 'state.set' AND e.at < ?3 GROUP BY e.agent
) AS new WHERE agent.key = new.agent AND agent.state_id < new.id;

-- name: count_states
UPDATE agent SET states_gone = states_gone + gone.states FROM (
  SELECT agent, count(*) AS states FROM doomed WHERE is_state GROUP BY agent
) AS gone WHERE agent.key = gone.agent;

-- name: streams_to_erase
-- Managed streams that ended at or before ?2 and were not erased yet: the span of an erased one is empty.
SELECT turn FROM turn
WHERE agent = ?1 AND kind = 'rsm' AND ended_at <= ?2 AND coalesce(first_seq, 0) < last_seq ORDER BY turn LIMIT ?3;

-- name: doom_stream
INSERT INTO doomed (id, agent, seq, before, events, size, place, is_state)
SELECT e.id, e.agent, e.seq, e.id - e.back, e.more + 1, length(e.body), e.id, 0
FROM turn AS t CROSS JOIN event AS e ON e.id BETWEEN coalesce(t.first_id, 0) AND t.last_id
WHERE t.agent = ?1 AND t.turn = ?2 AND e.agent = ?1 AND e.turn = ?2 AND e.kind = 'chunk';

-- name: close_span
UPDATE turn SET first_seq = last_seq, first_id = last_id WHERE agent = ?1 AND turn = ?2;

-- name: last_doomed
SELECT max(place), sum(events), sum(is_state), sum(size) FROM doomed;

-- name: mark_cuts
-- An event whose successor is deleted needs a mark, so that a reader can still reach it.
INSERT OR IGNORE INTO mark (agent, seq, id)
SELECT agent, seq, id FROM event WHERE id IN (SELECT before FROM doomed EXCEPT SELECT id FROM doomed);

-- name: remove_marks
DELETE FROM mark WHERE (agent, seq) IN (SELECT agent, seq FROM doomed);

-- name: remove_events
DELETE FROM event WHERE id IN (SELECT id FROM doomed);

-- name: clear_doomed
DELETE FROM doomed;

-- name: first_waiting
-- The first event that a later sweep has to delete: a chunk whose turn is open or ended too recently, or a state that is
-- too new.
SELECT min(id) FROM (
  SELECT e.id FROM event AS e CROSS JOIN turn AS t ON t.agent = e.agent AND t.turn = e.turn
  WHERE e.id > ?1 AND e.id <= ?2 AND e.kind = 'chunk' AND t.kind <> 'rsm'
  UNION ALL
  SELECT e.id FROM event AS e WHERE e.id > ?1 AND e.id <= ?2 AND e.kind = 'state.set' AND e.at >= ?3
);

-- name: put_conversation
INSERT INTO conversation (agent, id, kind, status, archived, updated, owner, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (agent) DO UPDATE SET
  status = excluded.status, archived = excluded.archived, updated = excluded.updated, owner = excluded.owner,
  body = excluded.body;

-- name: clear_conversation
DELETE FROM conversation WHERE agent = ?1;

-- name: put_approval
INSERT INTO approval (agent, kind, key, id, root, at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (agent, kind, key) DO UPDATE SET at = excluded.at, body = excluded.body;

-- name: remove_approval
DELETE FROM approval WHERE agent = ?1 AND kind = ?2 AND key = ?3;

-- name: clear_approvals
DELETE FROM approval WHERE agent = ?1;

-- name: find_conversation
SELECT id, body, EXISTS (SELECT 1 FROM approval AS p WHERE p.root = conversation.id AND p.kind = 'waiting') AS waits, agent
FROM conversation WHERE id = ?1;

-- A conversation waits for a person while a call of its agent, or of an agent below it, waits for an approval.

-- name: conversations_by_owner
SELECT id, body, EXISTS (SELECT 1 FROM approval AS p WHERE p.root = conversation.id AND p.kind = 'waiting') AS waits, agent
FROM conversation INDEXED BY conversation_by_owner
WHERE owner = ?1 AND archived = ?2 AND (updated, id) < (?3, ?4)
  AND (?5 IS NULL OR (status = ?5 AND NOT waits)) AND (?6 IS NULL OR kind IN (SELECT value FROM json_each(?6)))
ORDER BY updated DESC, id DESC LIMIT ?7;

-- name: conversations_by_status
SELECT id, body, EXISTS (SELECT 1 FROM approval AS p WHERE p.root = conversation.id AND p.kind = 'waiting') AS waits, agent
FROM conversation INDEXED BY conversation_by_status
WHERE status = ?5 AND status <> 'idle' AND owner = ?1 AND archived = ?2 AND (updated, id) < (?3, ?4)
  AND NOT waits AND (?6 IS NULL OR kind IN (SELECT value FROM json_each(?6)))
ORDER BY updated DESC, id DESC LIMIT ?7;

-- name: conversations_by_time
SELECT id, body, EXISTS (SELECT 1 FROM approval AS p WHERE p.root = conversation.id AND p.kind = 'waiting') AS waits, agent
FROM conversation INDEXED BY conversation_by_time
WHERE archived = ?2 AND (updated, id) < (?3, ?4)
  AND (?5 IS NULL OR (status = ?5 AND NOT waits)) AND (?6 IS NULL OR kind IN (SELECT value FROM json_each(?6)))
ORDER BY updated DESC, id DESC LIMIT ?7;

-- name: conversations_waiting
SELECT id, body, 1, agent FROM conversation
WHERE id IN (SELECT root FROM approval WHERE kind = 'waiting')
  AND (?1 IS NULL OR owner = ?1) AND archived = ?2 AND (updated, id) < (?3, ?4)
  AND (?6 IS NULL OR kind IN (SELECT value FROM json_each(?6)))
ORDER BY updated DESC, id DESC LIMIT ?7;

-- name: put_text
INSERT OR REPLACE INTO message_text (rowid, words, body) VALUES (?1, ?2, ?3);

-- name: remove_texts
DELETE FROM message_text WHERE rowid BETWEEN ?1 AND ?2;

-- name: clear_texts
DELETE FROM message_text WHERE rowid BETWEEN ?1 << 32 AND (?1 << 32) + 4294967295;

-- name: texts
SELECT t.rowid & 4294967295, t.words, t.body FROM agent AS a
CROSS JOIN message_text AS t ON t.rowid BETWEEN a.key << 32 AND (a.key << 32) + 4294967295
WHERE a.id = ?1 ORDER BY t.rowid;

-- name: first_texts
SELECT rowid & 4294967295, words, body FROM message_text WHERE rowid BETWEEN ?1 AND ?2 ORDER BY rowid LIMIT ?3;

-- name: count_texts
SELECT count(*) FROM (SELECT 1 FROM message_text WHERE message_text MATCH ?1 LIMIT ?2);

-- name: find_text
SELECT body FROM message_text WHERE message_text MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid LIMIT 1;

-- name: agents_with_word
SELECT DISTINCT rowid >> 32 FROM message_text WHERE message_text MATCH ?1;

-- name: has_text
SELECT EXISTS (SELECT 1 FROM message_text WHERE message_text MATCH ?1 AND rowid BETWEEN ?2 AND ?3);

-- name: conversations_of_agents
SELECT id, EXISTS (SELECT 1 FROM approval AS p WHERE p.root = conversation.id AND p.kind = 'waiting') AS waits, agent
FROM conversation WHERE agent IN (SELECT value FROM json_each(?7))
  AND (?1 IS NULL OR owner = ?1) AND archived = ?2 AND (updated, id) < (?3, ?4)
  AND (?5 IS NULL OR iif(waits, 'waiting', status) = ?5) AND (?6 IS NULL OR kind IN (SELECT value FROM json_each(?6)))
ORDER BY updated DESC, id DESC;

-- name: waiting_approvals
SELECT p.id, p.key, p.body, c.body FROM approval AS p LEFT JOIN conversation AS c ON c.id = p.root
WHERE p.kind = 'waiting' AND (p.at, p.id, p.key) > (?1, ?2, ?3)
  AND (?4 IS NULL OR c.owner = ?4) AND (?5 IS NULL OR p.root = ?5)
ORDER BY p.at, p.id, p.key LIMIT ?6;

-- name: settled_approvals
SELECT p.id, p.key, p.body, c.body FROM approval AS p LEFT JOIN conversation AS c ON c.id = p.root
WHERE p.kind = 'settled' AND (p.at, p.id, p.key) < (?1, ?2, ?3)
  AND (?4 IS NULL OR c.owner = ?4) AND (?5 IS NULL OR p.root = ?5)
ORDER BY p.at DESC, p.id DESC, p.key DESC LIMIT ?6;

-- name: find_share
SELECT a.id, k.body FROM kept AS k INDEXED BY kept_by_share JOIN agent AS a ON a.key = k.agent
WHERE k.kind = 'share' AND k.key = ?1;

-- name: mentioning
-- The agents that have the text ?3 in one of the ?2 events after arrival ?1, and a row without an agent with the last
-- arrival of these events, if there are any.
WITH part AS (SELECT id, agent, kind, body FROM event WHERE id > ?1 ORDER BY id LIMIT ?2)
SELECT NULL, a.id FROM agent AS a WHERE a.key IN (SELECT agent FROM part WHERE kind <> 'chunk' AND instr(body, ?3) > 0)
UNION ALL
SELECT max(id), NULL FROM part HAVING max(id) IS NOT NULL;

-- name: event_places
-- Every stored event of an agent with the head ?2; see erase_events.
WITH RECURSIVE step (id, back) AS (
  SELECT e.id, e.back FROM event AS e
  WHERE e.agent = ?1 AND e.id IN (SELECT m.id FROM mark AS m WHERE m.agent = ?1 UNION ALL SELECT ?2)
  UNION
  SELECT e.id, e.back FROM step AS s CROSS JOIN event AS e ON e.id = s.id - s.back
  WHERE s.back > 0 AND e.agent = ?1
)
SELECT e.id, e.seq, e.kind, e.turn, e.more FROM step AS s CROSS JOIN event AS e ON e.id = s.id;

-- name: event_body
SELECT body FROM event WHERE id = ?1;

-- name: rewrite_event
UPDATE event SET body = ?1 WHERE id = ?2;

-- name: doom_event
INSERT INTO doomed (id, agent, seq, before, events, size, place, is_state)
SELECT id, agent, seq, id - back, more + 1, length(body), id, ?2 FROM event WHERE id = ?1;

-- name: rename_destroyed
UPDATE agent SET id = ?2 WHERE id = ?1 AND head = 0;

-- name: put_erasure_note
INSERT INTO erasure (id, key, body) VALUES (?1, ?2, ?3) ON CONFLICT (id, key) DO UPDATE SET body = excluded.body;

-- name: erasure_notes
SELECT id, key, body FROM erasure ORDER BY id, key;

-- name: merge_texts
INSERT INTO message_text (message_text) VALUES ('optimize');
