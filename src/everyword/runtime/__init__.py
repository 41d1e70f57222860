"""Actors and turns: the thin asynchronous shell around `core`. Knows Protocols, never a particular store.

Read in this order: `clock`, `mailbox`, `tail` (the newest committed events), `actor` (decide, commit, publish),
`turn_runner` (one attempt of a turn), `reconciler` (starts and stops what the committed state calls for), `directory`
(which agents are loaded), `wake_scheduler`, `subscription` and `outbox` (readers). `api` is what an agent's code is
told, `agent_runtime` what it may ask for.
"""
