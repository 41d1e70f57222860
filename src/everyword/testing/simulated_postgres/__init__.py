"""A PostgreSQL in memory for `PostgresLog`: its statements, locks and clock, without SQL and without a process.

Everything above the driver is the real code: the lease of a node, the writer, the queries. The simulation of several
nodes runs over it, because it can be paused, delayed and cut at any statement. A store over it keeps the contract of
stores, and random histories of three nodes are compared with a real PostgreSQL (`tests/testing`). Not compared: locks
of statements that run at the same time.
"""
