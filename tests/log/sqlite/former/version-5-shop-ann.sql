-- The database of shop/ann, beside that of version 5.
PRAGMA application_id = 0;
PRAGMA user_version = 0;
BEGIN TRANSACTION;
CREATE TABLE note (text);
INSERT INTO "note" VALUES('milk');
COMMIT;
