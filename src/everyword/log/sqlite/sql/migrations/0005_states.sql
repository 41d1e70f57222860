-- Retention deletes superseded states as well as chunks. It deletes no other events.

-- The arrival of the newest `state.set` that a sweep has passed (0: none), and the number of deleted ones before it. The
-- sweep deletes a state when it reaches the one that replaced it, which may come much later: so the state is stored here.
ALTER TABLE agent ADD COLUMN state_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agent ADD COLUMN states_gone INTEGER NOT NULL DEFAULT 0;

-- States that are in the file already are found by one more sweep from the start, in slices.
UPDATE store SET pruned = 0;
