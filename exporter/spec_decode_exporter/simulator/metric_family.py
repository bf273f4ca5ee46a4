"""Metric families as a front end holds them, before they are text."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

Labels = tuple[tuple[str, str], ...]


class FamilyKind(StrEnum):
    """The types that vLLM's pages have."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class FamilySample(NamedTuple):
    """One line of a page; labels stand as they are written."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """A family and its samples, creation times apart; a counter's name is without ``_total``."""

    name: str
    kind: FamilyKind
    help: str
    samples: Sequence[FamilySample]
    created: Sequence[FamilySample] = ()

    def restricted(self, names: Container[str]) -> MetricFamily | None:
        """Return the family with only the samples of these names; None if there are none."""
        kept = replace(
            self,
            samples=[sample for sample in self.samples if sample.name in names],
            created=[sample for sample in self.created if sample.name in names],
        )
        return kept if kept.samples or kept.created else None
