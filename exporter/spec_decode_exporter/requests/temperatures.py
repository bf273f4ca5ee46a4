"""Temperatures in buckets: how freely tokens are drawn decides how many of a draft's are accepted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from spec_decode_exporter.requests.request_findings import UNKNOWN


def temperature_labels(bounds: Sequence[float]) -> list[str]:
    """Return the labels of the buckets below ascending upper ``bounds``, and of the one above them all."""
    written = [str(bound).removesuffix(".0") for bound in bounds]
    below = [label if bound == 0 else f"to {label}" for bound, label in zip(bounds, written, strict=True)]
    return [*below, f"above {written[-1]}"]


class Temperatures:
    """The buckets of the configuration."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Take ascending upper bounds, each of which belongs to its bucket."""
        self._bounds = bounds
        self._labels = temperature_labels(bounds)

    def label(self, temperature: float | None) -> str:
        """Return the label of a temperature's bucket; greedy decoding, 0, has one of its own."""
        if temperature is None:
            return UNKNOWN
        return self._labels[bisect_left(self._bounds, temperature)]
