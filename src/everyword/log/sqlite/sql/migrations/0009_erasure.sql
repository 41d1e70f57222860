-- The progress of erasures of principals, to be continued after a crash, and what became of them.
CREATE TABLE erasure (
  id   TEXT NOT NULL,
  key  TEXT NOT NULL,  -- empty: about the erasure itself
  body BLOB NOT NULL,
  PRIMARY KEY (id, key)
) WITHOUT ROWID;
