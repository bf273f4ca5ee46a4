"""Row type of the metric tables: a metric, its source and its reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures.figure import Stability

Subject = TypeVar("Subject")

Values = Iterable[tuple[tuple[str, ...], float | None]]
"""The values of a row's own labels, and the number; None is left out of the page."""

Numbers = Iterator[tuple[tuple[str, ...], float | None]]
"""Values of a reader that yields them."""

Read = Callable[[Subject], Values]
"""Reader of a row's values."""


class MetricKind(StrEnum):
    """The type of a metric in the exposition formats."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    QUANTILES = "unknown"
    """Quantiles of a window without a count of all observations, as a summary has it: decision 17."""


@dataclass(frozen=True, slots=True)
class Metric(Generic[Subject]):
    """A metric: its name, labels and meaning are a contract with users."""

    name: str
    """Name on the page; a counter's with ``_total``, a histogram's without suffix."""
    kind: MetricKind
    group: Group
    help: str
    """One sentence of at most 120 characters: what, over what, unit."""
    read: Callable[[Subject], Values]
    labels: tuple[str, ...] = ()
    """Labels beyond those of the engine or target."""
    stability: Stability = Stability.STABLE
    source: tuple[str, ...] = ()
    """Series, fields or settings that it is computed from; empty: the exporter's own observation."""

    @property
    def family(self) -> str:
        """The name of its family, which for a counter lacks ``_total``."""
        return self.name.removesuffix("_total") if self.kind is MetricKind.COUNTER else self.name
