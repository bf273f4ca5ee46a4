"""Metric families of a front end, before encoding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

Labels = tuple[tuple[str, str], ...]


class FamilyKind(StrEnum):
    """Metric types on vLLM's pages."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class FamilySample(NamedTuple):
    """One line of a page; labels are in their written order."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A family with its samples and creation times; a counter's name has no ``_total``."""

    name: str
    kind: FamilyKind
    help: str
    samples: Sequence[FamilySample]
    created: Sequence[FamilySample] = ()

    def restricted(self, names: Container[str]) -> MetricFamily | None:
        """Return the family with only the samples of these names; None without such samples."""
        kept = replace(
            self,
            samples=[sample for sample in self.samples if sample.name in names],
            created=[sample for sample in self.created if sample.name in names],
        )
        return kept if kept.samples or kept.created else None
