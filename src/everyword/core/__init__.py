"""The rules of the game. Pure: commands in, events out; no clock, no randomness, no I/O.

Read in this order: `transitions` (what a turn may do), `state` (what is remembered), `commands` (what may
be asked), `decide` (what an ask causes), `evolve` (what an event changes), `wanted` (what should be running),
`project` and `restore` (rows out of events, state out of rows).
"""
