"""Durable storage: where the truth is kept. `base` says what a store must do; the others do it."""
