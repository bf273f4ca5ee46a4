"""One row of the catalogue: a metric, and where its values come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from spec_decode_exporter.config.schema import Group

View = TypeVar("View")

Values = Iterable[tuple[tuple[str, ...], float | None]]
"""The values of a row's own labels, and the number; None is left out of the page."""


class MetricKind(StrEnum):
    """The type of a metric, as the exposition formats call it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Stability(StrEnum):
    """What users may rely on."""

    STABLE = "stable"
    """The name, the labels and the meaning stay within a major version."""
    EXPERIMENTAL = "experimental"
    """May change with a minor version; the changelog says so."""


@dataclass(frozen=True, slots=True)
class Metric(Generic[View]):
    """A metric: its name is the contract, its help is written for whoever reads the page."""

    name: str
    """As it stands on the page; a counter's with ``_total``, a histogram's without suffix."""
    kind: MetricKind
    group: Group
    help: str
    read: Callable[[View], Values]
    labels: tuple[str, ...] = ()
    """Labels beyond those of the engine or target."""
    default: bool = True
    """Whether it is on when its group is not mentioned in the configuration."""
    stability: Stability = Stability.STABLE

    @property
    def family(self) -> str:
        """The name of its family, which for a counter lacks ``_total``."""
        return self.name.removesuffix("_total") if self.kind is MetricKind.COUNTER else self.name
