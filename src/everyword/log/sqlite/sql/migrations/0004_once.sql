-- A commit writes less: no body that one of its events has, and no wake time for an agent that runs a turn.

-- A large body is in an event of the agent: `event` is its arrival, and `size` bytes from `start` on are the body.
-- Events that are no chunks stay as long as their agent.
ALTER TABLE message ADD COLUMN event INTEGER;
ALTER TABLE message ADD COLUMN start INTEGER;
ALTER TABLE message ADD COLUMN size INTEGER;

-- An agent that runs a turn is to be woken at once (0), unless a row of `wake` says otherwise; -1 says never.
DROP INDEX turn_open;
CREATE INDEX turn_open ON turn (agent, turn, status, kind) WHERE ended_at IS NULL;

CREATE VIEW woken_to_run (agent, at) AS
SELECT DISTINCT t.agent, 0 FROM turn AS t INDEXED BY turn_open
WHERE t.ended_at IS NULL AND t.status IN ('running', 'cancelling') AND t.kind NOT IN ('stream', 'rsm')
  AND NOT EXISTS (SELECT 1 FROM wake AS w WHERE w.agent = t.agent);
