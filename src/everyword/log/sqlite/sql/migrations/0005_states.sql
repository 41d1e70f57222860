-- Superseded states fall under retention, as chunks do: of all that an agent's log has, only these are deleted.

-- The newest `state.set` that retention has passed, by its arrival (0: none), and how many before it are gone. The sweep
-- deletes a state when it comes to the one that replaced it, and that one may lie far behind: this is how it finds back.
ALTER TABLE agent ADD COLUMN state_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agent ADD COLUMN states_gone INTEGER NOT NULL DEFAULT 0;

-- States that are in the file already are found by sweeping it once more, in slices, beside everything else.
UPDATE store SET pruned = 0;
