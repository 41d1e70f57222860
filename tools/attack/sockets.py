"""Sockets: many that do not read, resume, or never finish; the server's memory stays below a bound."""

from __future__ import annotations

from typing import Final

from tools.attack.findings import Findings
from tools.client_cost import MIB, QUIET, ROWS, measure

__all__ = ["attack_with_sockets"]

BOUND: Final = 400 * MIB
"""What sockets of one kind may cost in all; the whole process has some 60 MiB without them."""
SHORT_QUIET: Final = 1.0


async def attack_with_sockets(share: float) -> Findings:
    """Open this share of the sockets that tools.client_cost opens, and compare what they cost with the bound."""
    findings = Findings("sockets")
    for name, (run, most) in ROWS.items():
        count = max(2, round(most * share))
        idle, top = await measure(run, count, QUIET if share >= 1 else SHORT_QUIET)
        took = top - idle
        what = f"{name}: {took / MIB:,.0f} MiB (bound {BOUND // MIB})"
        findings.count(what, count)
        if took > BOUND:
            findings.blame(what, f"{count} of them took {took / MIB:,.0f} MiB")
    return findings
