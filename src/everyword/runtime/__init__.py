"""Actors and turns: the thin asynchronous shell around `core`. Knows Protocols, never a particular store.

Read in this order: `clock`, `mailbox`, `tail` (what was committed), `actor` (decide, commit, publish), `runner` (one
attempt of a turn), `agency` (the work that `wanted` calls for), `directory` (which agents are loaded), `timekeeper`,
`subscription` and `outbox` (readers).
"""
