"""Write the lines of a metric: the text around a view's labels and the number is made once for all views.

The labels of a line are sorted by name, as prometheus_client sorts them. So the labels of a view, such as an
engine's, and those of the metric's own may alternate: a line is a template with a place for each run of the
view's labels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from spec_decode_exporter.metrics.metric import Metric, MetricKind, Values
from spec_decode_exporter.metrics.text_values import label_text, number_text

Cuts = tuple[int, ...]
"""Places in the sorted labels of a view where labels of a metric are inserted."""

MAX_TEMPLATES: Final = 2_000
"""Templates of a metric that are kept for the next page: models, users and request types come and go."""


class ViewLabels:
    """Labels of one view, written once for all metrics of a page."""

    __slots__ = ("_runs", "_texts", "names")

    def __init__(self, labels: Mapping[str, str]) -> None:
        """Write labels.

        Raises:
            AttributeError: A value is not a text.
        """
        self.names = tuple(sorted(labels))
        self._texts = [label_text(name, labels[name]) for name in self.names]
        self._runs: dict[Cuts, tuple[str, ...]] = {}

    def runs(self, cuts: Cuts) -> tuple[str, ...]:
        """Return the labels between ``cuts``; runs without a label are omitted."""
        runs = self._runs.get(cuts)
        if runs is None:
            ends = (0, *cuts, len(self._texts))
            runs = tuple(",".join(self._texts[begin:end]) for begin, end in pairwise(ends) if begin < end)
            self._runs[cuts] = runs
        return runs


class LineWriter:
    """Writer of one metric's lines for views that have the same label names."""

    def __init__(self, metric: Metric[Any], names: tuple[str, ...]) -> None:
        """Write lines of views whose sorted label names are ``names``."""
        self.names = names
        self._metric = metric
        self._is_histogram = metric.kind is MetricKind.HISTOGRAM
        own = (*metric.labels, "le") if self._is_histogram else metric.labels
        places = sorted((name, bisect_left(names, name)) for name in own)
        self._cuts = tuple(place for _, place in places)
        self._between = tuple(begin < end for begin, end in pairwise((0, *self._cuts, len(names))))
        """True for each run between the cuts that has labels."""
        self._templates: dict[tuple[str, ...], str] = {}

    def lines(self, labels: ViewLabels, values: Values) -> list[str]:
        """Return a line for each number of a view.

        Raises:
            ValueError: A number is not finite, or its labels are not those of the metric.
        """
        runs, templates = labels.runs(self._cuts), self._templates
        if len(templates) > MAX_TEMPLATES:
            templates.clear()
        lines = []
        for own, number in values:
            if number is None:
                continue
            template = templates.get(own)
            if template is None:
                template = templates[own] = self._template(own)
            lines.append(f"{template % runs} {number_text(number)}\n")
        return lines

    def _template(self, values: tuple[str, ...]) -> str:
        """Return the name and labels of a line, with ``%s`` for each run of the view's labels."""
        suffix, own = self._own(values)
        runs = iter(self._between)
        parts = ["%s"] if next(runs) else []
        for name in sorted((*self._metric.labels, *(["le"] if self._is_histogram else []))):
            if name in own:
                parts.append(label_text(name, own[name]).replace("%", "%%"))
            if next(runs):
                parts.append("%s")
        labels = f"{{{','.join(parts)}}}" if parts else ""
        return f"{self._metric.name}{suffix}{labels}"

    def _own(self, values: tuple[str, ...]) -> tuple[str, dict[str, str]]:
        """Return the suffix of the name and the metric's own labels."""
        names = self._metric.labels
        if not self._is_histogram:
            return "", dict(zip(names, values, strict=True))
        suffix, bound, *rest = values
        own = dict(zip(names, rest, strict=True))
        return suffix, {**own, "le": bound} if bound else own
