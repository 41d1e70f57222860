-- Lists over all agents, written in the transaction of the kept rows that they show.

CREATE TABLE conversation (
  agent    INTEGER PRIMARY KEY,
  id       TEXT NOT NULL UNIQUE,
  kind     TEXT NOT NULL,
  status   TEXT NOT NULL,
  archived INTEGER NOT NULL,
  updated  INTEGER NOT NULL,
  owner    TEXT NOT NULL,  -- empty: none
  body     BLOB NOT NULL
);
CREATE INDEX conversation_by_owner ON conversation (owner, archived, updated, id);
CREATE INDEX conversation_by_time ON conversation (archived, updated, id);
CREATE INDEX conversation_by_status ON conversation (status, owner, updated, id) WHERE status <> 'idle';

-- Calls that wait for an approval (kind `waiting`) or got one (`settled`). `root` is the id of the conversation's agent.
CREATE TABLE approval (
  agent INTEGER NOT NULL,
  kind  TEXT NOT NULL,
  key   TEXT NOT NULL,
  id    TEXT NOT NULL,
  root  TEXT NOT NULL,
  at    INTEGER NOT NULL,
  body  BLOB NOT NULL,
  PRIMARY KEY (agent, kind, key)
) WITHOUT ROWID;
CREATE INDEX approval_by_time ON approval (kind, at, id, key);
CREATE INDEX approval_by_root ON approval (root, kind, at, id, key);
