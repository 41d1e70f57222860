"""Count the calls between two points of a running server: `make call-paths`, `python -m tools.call_paths`.

Four walks through the code are measured, each from a named begin to a named end (`walks.py`). The server is a real one:
uvicorn with our protocol class, an SQLite store, and clients on sockets. `recorder.py` notes every call of a function
of our package between begin and end, in all threads. The result is a report for readers of the code, not a limit.
"""
