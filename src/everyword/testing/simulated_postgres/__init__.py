"""A PostgreSQL in memory for `PostgresLog`: its statements, locks and clock, without SQL and without a process.

Everything above the driver is the real code: the lease of a node, the writer, the queries. The simulation of several
nodes runs over it, because it can be paused, delayed and cut at any statement. A store over it keeps the contract of
stores; that its nodes behave as over a real PostgreSQL is not compared yet.
"""
