"""Deterministic simulation: a whole server and its clients in one thread, every random choice drawn from one seed."""

from __future__ import annotations

from .run import Run, simulate

__all__ = ["Run", "simulate"]
