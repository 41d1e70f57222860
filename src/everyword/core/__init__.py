"""The rules of an agent, as pure functions: commands in, events out. No clock, no randomness, no I/O.

Read the modules in this order: `transitions` (the statuses of a turn), `tree` (the messages), `turn_state` and `state`
(what an agent remembers), `commands` (what a caller may ask for), `decide` (which events a command causes), `evolve`
(what an event changes), `wanted` (which work should be running), `project` (rows from events) and `restore` (state
from rows).
"""
