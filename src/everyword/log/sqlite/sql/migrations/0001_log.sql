-- The log in order of arrival, its projections, and views with the shapes of the seeds' tables.

-- One row: progress of the file as a whole.
CREATE TABLE store (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  scanned INTEGER NOT NULL,  -- agent.head and agent.head_id count all events up to this arrival
  pruned  INTEGER NOT NULL,  -- retention has nothing more to do up to this arrival
  sealed  INTEGER NOT NULL   -- how often a failed commit had to be overwritten
);
INSERT INTO store (one, scanned, pruned, sealed) VALUES (1, 0, 0, 0);

-- An agent's lease, the head of its log, and its AgentRow (absent while generation is NULL).
-- Other tables refer to an agent by its key.
CREATE TABLE agent (
  key        INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  epoch      INTEGER NOT NULL,
  head       INTEGER NOT NULL DEFAULT 0,
  head_id    INTEGER NOT NULL DEFAULT 0,
  generation INTEGER,
  leaf       INTEGER,
  last_turn  INTEGER,
  last_node  INTEGER
);

-- Every event, in order of arrival over all agents, so that a commit writes only to the end of the table.
-- `back` is the number of arrivals since the agent's previous event (0: there was none); an agent's log is the
-- chain that starts at its head. An index by agent would be written in random order.
CREATE TABLE event (
  id    INTEGER PRIMARY KEY,
  agent INTEGER NOT NULL,
  seq   INTEGER NOT NULL,
  at    INTEGER NOT NULL,
  kind  TEXT NOT NULL,
  turn  INTEGER,
  back  INTEGER NOT NULL,
  body  BLOB NOT NULL
);

-- Where a reader can enter a chain besides its head: at every 256th event, and wherever retention deleted events.
-- Each stored event is its agent's head, or has a mark, or comes right before a stored event of its log.
CREATE TABLE mark (
  agent INTEGER NOT NULL,
  seq   INTEGER NOT NULL,
  id    INTEGER NOT NULL,
  PRIMARY KEY (agent, seq)
) WITHOUT ROWID;

-- The TurnRows. The chunks of the turn are between `first_*` (NULL: anywhere) and `last_*` (NULL: it is open).
CREATE TABLE turn (
  agent         INTEGER NOT NULL,
  turn          INTEGER NOT NULL,
  request       TEXT NOT NULL,
  kind          TEXT NOT NULL,
  generation    INTEGER NOT NULL,
  node          INTEGER NOT NULL,
  message_id    TEXT NOT NULL,
  status        TEXT NOT NULL,
  accepted      BLOB NOT NULL,
  accepted_at   INTEGER NOT NULL,
  attempt       INTEGER NOT NULL,
  chunks        INTEGER NOT NULL,
  reason        TEXT,
  error         TEXT,
  detail        TEXT,
  finish_reason TEXT,
  usage         BLOB,
  ended_at      INTEGER,
  hook_due     INTEGER NOT NULL,
  first_seq     INTEGER,
  first_id      INTEGER,
  last_seq      INTEGER,
  last_id       INTEGER,
  PRIMARY KEY (agent, turn)
) WITHOUT ROWID;

-- I-6: a request id is accepted at most once, for ever.
CREATE UNIQUE INDEX turn_request ON turn (agent, request);

-- Activation looks for open turns among thousands of ended ones.
CREATE INDEX turn_open ON turn (agent, turn) WHERE ended_at IS NULL;

-- I-1: a turn ends exactly once.
CREATE TRIGGER turn_ends_once BEFORE UPDATE ON turn
WHEN OLD.ended_at IS NOT NULL AND (
  NEW.ended_at IS NOT OLD.ended_at OR NEW.status IS NOT OLD.status
  OR NEW.reason IS NOT OLD.reason OR NEW.error IS NOT OLD.error
)
BEGIN
  SELECT RAISE(ABORT, 'the turn has ended, and ends once (I-1)');
END;

-- The MessageRows.
CREATE TABLE message (
  agent  INTEGER NOT NULL,
  node   INTEGER NOT NULL,
  parent INTEGER,
  id     TEXT NOT NULL,
  role   TEXT NOT NULL,
  body   BLOB,
  draft  BLOB,
  at     INTEGER NOT NULL,
  PRIMARY KEY (agent, node)
) WITHOUT ROWID;

-- R-22: when an agent is to be woken.
CREATE TABLE wake (
  agent INTEGER PRIMARY KEY,
  at    INTEGER NOT NULL
);
CREATE INDEX wake_at ON wake (at);

-- The stream of every started turn of the current conversation.
CREATE VIEW cf_ai_chat_stream_metadata (id, request_id, status, created_at, completed_at, error_message, agent) AS
SELECT
  t.agent || ':' || t.turn,
  t.request,
  CASE WHEN t.ended_at IS NULL THEN 'streaming' ELSE t.status END,
  t.accepted_at,
  t.ended_at,
  t.error,
  a.id
FROM agent AS a
JOIN turn AS t ON t.agent = a.key
WHERE t.kind <> 'rsm'
  AND t.status NOT IN ('accepted', 'skipped')
  AND t.generation = coalesce(a.generation, t.generation);

-- The chunks of these streams; `body` is the chunk as JSON text, NULL where the stored bytes are damaged.
CREATE VIEW cf_ai_chat_stream_chunks (id, stream_id, body, chunk_index, created_at, agent) AS
SELECT
  e.agent || ':' || e.seq,
  t.agent || ':' || t.turn,
  CASE WHEN json_valid(CAST(e.body AS TEXT)) THEN json_extract(CAST(e.body AS TEXT), '$.body') END,
  CASE WHEN json_valid(CAST(e.body AS TEXT)) THEN json_extract(CAST(e.body AS TEXT), '$.index') END,
  e.at,
  a.id
FROM agent AS a
JOIN turn AS t ON t.agent = a.key
JOIN event AS e
  ON e.agent = t.agent AND e.turn = t.turn AND e.kind = 'chunk'
  AND e.id BETWEEN coalesce(t.first_id, 0) AND coalesce(t.last_id, 9223372036854775807)
WHERE t.kind <> 'rsm'
  AND t.status NOT IN ('accepted', 'skipped')
  AND t.generation = coalesce(a.generation, t.generation);
