"""A PostgreSQL in memory for `PostgresLog`: its statements, locks and clock, without SQL and without a process.

Everything above the driver is the real code: the lease of a node, the writer, the queries. The simulation of several
nodes runs over it, because it can be paused, delayed and cut at any statement. It passes the contract of a store, and
agrees with a real PostgreSQL.
"""
