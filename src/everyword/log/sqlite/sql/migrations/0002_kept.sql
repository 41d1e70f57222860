-- The KeptRows: what else an agent needs when it is loaded, by kind and key (its state, its jobs).
CREATE TABLE kept (
  agent INTEGER NOT NULL,
  kind  TEXT NOT NULL,
  key   TEXT NOT NULL,
  body  BLOB NOT NULL,
  PRIMARY KEY (agent, kind, key)
) WITHOUT ROWID;
