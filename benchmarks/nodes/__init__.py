"""PostgreSQL and several nodes: what they cost next to one process with a SQLite file, and what a failure costs."""
