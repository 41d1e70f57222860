"""The metrics of several nodes as one page: each node exports its own, and a label says which node a sample is of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

__all__ = ["NodeFamilies", "export_families"]

LABEL = "node"


class _Sample(msgspec.Struct, frozen=True, array_like=True):
    name: str
    labels: dict[str, str]
    value: float
    timestamp: float | None = None


class _Family(msgspec.Struct, frozen=True, array_like=True):
    name: str
    documentation: str
    kind: str
    unit: str
    samples: Sequence[_Sample]


_decode = msgspec.msgpack.Decoder(list[_Family]).decode


def export_families(registry: CollectorRegistry) -> bytes:
    """Return all samples of a registry, for another node."""
    # Not JSON, which has no infinity.
    return msgspec.msgpack.encode(
        [
            _Family(
                family.name, family.documentation, family.type, family.unit, [_sample(each) for each in family.samples]
            )
            for family in registry.collect()
        ]
    )


def _sample(sample: Iterable[object]) -> _Sample:
    name, labels, value, timestamp, *_ = sample  # exemplars are not part of the text format
    at = None if timestamp is None else float(timestamp)  # type: ignore[arg-type]
    return _Sample(str(name), dict(labels), float(value), at)  # type: ignore[call-overload, arg-type]


class NodeFamilies:
    """The exports of several nodes, as Prometheus' exposition reads a registry: each family once, with all samples.

    A label `node` that a sample has already becomes `exported_node`, as in Prometheus itself.
    """

    def __init__(self, exports: Iterable[tuple[str, bytes]]) -> None:
        self._exports = list(exports)

    def collect(self) -> Iterator[Metric]:
        from prometheus_client import Metric

        families: dict[str, Metric] = {}
        for node, export in self._exports:
            for family in _decode(export):
                if family.name not in families:
                    families[family.name] = Metric(family.name, family.documentation, family.kind, family.unit)
                for each in family.samples:
                    families[family.name].add_sample(each.name, _labels(each, node), each.value, each.timestamp)
        yield from families.values()


def _labels(sample: _Sample, node: str) -> dict[str, str]:
    labels = {f"exported_{LABEL}" if name == LABEL else name: value for name, value in sample.labels.items()}
    return {LABEL: node, **labels}
