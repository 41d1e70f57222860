"""The store that keeps all logs in a PostgreSQL database, for one node or several."""
