"""The peer's figures from another run, for where it cannot be installed: 2 cores, Python 3.11, loopback."""

from __future__ import annotations

from benchmarks.measures import Figures

__all__ = ["PEER_ELSEWHERE"]

PEER_ELSEWHERE: dict[str, dict[str, Figures]] = {
    row: {"peer": figures}
    for row, figures in {
        "flat": {"rate": 21_400.0, "cpu": 52.0, "first": 199.0},
        "yielding": {"rate": 4_600.0},
        "100": {"p50": 4.5, "p99": 35.0, "cpu": 183.0},
        "400": {"held": 77.0},
        "fanout": {"rate": 85_000.0, "cpu": 11.8},
        "replay": {"time": 206.0},
        "tiny": {"rate": 250.0, "cpu": 4.3},
        "memory": {"open": 1067.0, "idle": 144.0},
        "new": {"cpu": 15.0},
        "history": {"all1000": 22.0},
    }.items()
}
