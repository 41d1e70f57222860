"""Loads over real sockets, side by side: everyword, the floors under it, and the peer. See docs/performance.md.

`python -m benchmarks` runs the table, `python -m benchmarks.core` what needs no sockets, `python -m benchmarks.growth`
what happens when a store has grown, `python -m benchmarks.lists` lists and searches of many conversations.
"""
