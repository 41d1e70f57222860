"""Links between nodes: one connection per pair of nodes carries relayed requests and sockets, calls and hints.

The server imports this package, never the other way round. It knows ASGI, and nothing of agents.
"""
