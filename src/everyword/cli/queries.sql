-- What commands ask of a file besides what the store asks, by name. Everything here reads.

-- name: overview
-- Every agent with its newest ended turn that counts, the open turn that runs or is next, and its last message.
SELECT
  a.key, a.id, a.epoch, a.head, a.head_id,
  CASE WHEN w.at >= 0 THEN w.at WHEN w.at IS NULL THEN (SELECT at FROM woken_to_run AS r WHERE r.agent = a.key) END,
  (SELECT count(*) FROM turn AS t WHERE t.agent = a.key),
  (
    SELECT coalesce(m.draft, m.body, (
      SELECT substr(CAST(e.body AS BLOB), m.start + 1, m.size) FROM event AS e WHERE e.id = m.event AND e.agent = m.agent
    ))
    FROM message AS m WHERE m.agent = a.key AND m.node = a.leaf
  ),
  l.turn, l.status, l.error, l.ended_at,
  o.turn, o.status, o.attempt, o.accepted_at, o.kind
FROM agent AS a
LEFT JOIN wake AS w ON w.agent = a.key
LEFT JOIN turn AS l ON l.agent = a.key AND l.turn = (
  SELECT max(t.turn) FROM turn AS t
  WHERE t.agent = a.key AND t.kind IN ('chat', 'continuation') AND t.ended_at IS NOT NULL
    AND t.status <> 'skipped' AND t.generation = a.generation
)
LEFT JOIN turn AS o ON o.agent = a.key AND o.turn = (
  SELECT t.turn FROM turn AS t INDEXED BY turn_open
  WHERE t.agent = a.key AND t.ended_at IS NULL AND t.kind IN ('chat', 'continuation', 'calls')
  ORDER BY t.status = 'accepted', t.turn LIMIT 1
)
ORDER BY a.key;

-- name: event_time
SELECT at FROM event WHERE id = ?1;

-- name: agent_record
-- What only the file itself knows of an agent: its lease, when it wants to be looked at, and how many states are gone.
SELECT a.epoch,
  CASE WHEN w.at >= 0 THEN w.at WHEN w.at IS NULL THEN (SELECT at FROM woken_to_run AS r WHERE r.agent = a.key) END,
  a.states_gone
FROM agent AS a LEFT JOIN wake AS w ON w.agent = a.key WHERE a.id = ?1;

-- name: stored_counts
-- How many events each agent has in the file, whether a chain leads to them or not.
SELECT a.id, count(*) + sum(e.more), max(e.seq) FROM event AS e LEFT JOIN agent AS a ON a.key = e.agent GROUP BY e.agent;

-- name: prunable
-- What retention would take: chunks of turns that ended before ?1, and of the states before ?1 all but each agent's last.
SELECT coalesce(sum(iif(is_state, 0, events)), 0), coalesce(sum(is_state), 0), coalesce(sum(size), 0) FROM (
  SELECT 0 AS is_state, e.more + 1 AS events, length(e.body) AS size
  FROM event AS e CROSS JOIN turn AS t ON t.agent = e.agent AND t.turn = e.turn
  WHERE e.kind = 'chunk' AND t.kind <> 'rsm' AND t.ended_at < ?1
  UNION ALL
  SELECT 1, 1, size FROM (
    SELECT e.id, e.agent, length(e.body) AS size, max(e.id) OVER (PARTITION BY e.agent) AS last
    FROM event AS e WHERE e.kind = 'state.set' AND e.at < ?1
  ) AS s
  WHERE s.id < s.last AND s.id NOT IN (SELECT m.event FROM message AS m WHERE m.event IS NOT NULL)
);
