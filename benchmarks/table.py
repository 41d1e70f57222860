"""The table: one line per figure, all servers beside each other, and how many times better we are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.measures import Figures, Metric, Row

__all__ = ["Results", "render", "verdicts"]

Results = dict[str, dict[str, Figures]]
"""Row → server → figures."""

KEEPS_UP = 90.0
"""Percent of the ideal rate below which latencies are those of another, smaller load."""

FLOOR_LIMIT = 3.0
"""How many times worse than the floor with storage nothing of ours may be."""


def render(rows: Sequence[Row], servers: Mapping[str, str], results: Results, taken_over: Results) -> str:
    """Return the table as Markdown, with the servers by name and title; what was measured elsewhere has a star."""
    lines = [
        f"| row | unit | {' | '.join(servers.values())} | × peer | wanted | × floor with storage |",
        f"|---|---|{'---:|' * len(servers)}---:|---:|---:|",
    ]
    for row in rows:
        measured = results.get(row.name, {})
        for metric in row.metrics:
            first = row.title if metric is row.metrics[0] else ""
            cells = [_cell(metric, name, measured, taken_over.get(row.name, {})) for name in servers]
            peer = _advantage(metric, measured, "peer", taken_over.get(row.name, {}))
            floor = _advantage(metric, measured, "stored") if metric.counts_floor else None
            cells += [_times(peer), _wanted(metric), _times(floor)]
            lines.append(f"| {first} | {metric.unit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def verdicts(rows: Sequence[Row], results: Results, taken_over: Results) -> list[str]:
    """Return a sentence for every promise that the figures do not keep."""
    found = []
    for row in rows:
        measured = results.get(row.name, {})
        for metric in row.metrics:
            name = f"{row.title}, {metric.unit}"
            peer = _advantage(metric, measured, "peer", taken_over.get(row.name, {}))
            if metric.times_peer is not None and peer is not None and peer < metric.times_peer:
                found.append(f"{name}: {peer:.2f} × the peer, {metric.times_peer:g} × was wanted")
            ours = measured.get("everyword", {}).get(metric.name)
            if metric.at_least is not None and ours is not None and ours < metric.at_least:
                found.append(f"{name}: {ours:.1f}, at least {metric.at_least:g} was wanted")
            if metric.at_most is not None and ours is not None and ours > metric.at_most:
                found.append(f"{name}: {ours:.1f}, at most {metric.at_most:g} was wanted")
            floor = _advantage(metric, measured, "stored") if metric.counts_floor else None
            if floor is not None and floor < 1 / FLOOR_LIMIT:
                found.append(
                    f"{name}: {1 / floor:.1f} × worse than the floor with storage, {FLOOR_LIMIT:g} × is the limit"
                )
    return found


def _cell(metric: Metric, server: str, measured: dict[str, Figures], elsewhere: dict[str, Figures]) -> str:
    if (value := measured.get(server, {}).get(metric.name)) is not None:
        return f"{value:,.{metric.digits}f}"
    if (value := elsewhere.get(server, {}).get(metric.name)) is not None:
        return f"{value:,.{metric.digits}f}\\*"
    return ""


def _advantage(
    metric: Metric, measured: dict[str, Figures], other: str, elsewhere: dict[str, Figures] | None = None
) -> float | None:
    ours = measured.get("everyword", {}).get(metric.name)
    theirs = measured.get(other, {}).get(metric.name)
    if theirs is None and elsewhere is not None:
        theirs = elsewhere.get(other, {}).get(metric.name)
    if metric.needs_rate and measured.get(other, {}).get("held", 100.0) < KEEPS_UP:
        return None
    return metric.advantage(ours, theirs) if ours is not None and theirs is not None else None


def _times(advantage: float | None) -> str:
    return "" if advantage is None else f"{advantage:.2f}"


def _wanted(metric: Metric) -> str:
    if metric.at_least is not None:
        return f"≥ {metric.at_least:g}"
    if metric.at_most is not None:
        return f"≤ {metric.at_most:g}"
    return f"≥ {metric.times_peer:g} ×" if metric.times_peer is not None else ""
