"""Write samples as lines of the Prometheus text formats, several times as fast as prometheus_client does.

The bytes are those of prometheus_client, which tests compare for every format, label and number. The formats
differ in the lines above a family's samples only. Text format:
https://prometheus.io/docs/instrumenting/exposition_formats/; OpenMetrics 1.0:
https://prometheus.io/docs/specs/om/open_metrics_spec/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import isfinite, isnan
from typing import Any, Final

from exporter.export.metric import Kind, Metric, Values

_LABEL_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_LONGEST_INTEGER_PART: Final = 6
"""Digits before the point that Go writes without an exponent."""


def text_head(metric: Metric[Any]) -> str:
    """Return the HELP and TYPE lines of a family in the text formats: a counter ends in ``_total``."""
    return (
        f"# HELP {metric.name} {metric.help.translate(_HELP_ESCAPES)}\n# TYPE {metric.name} {metric.kind}\n"
    )


def openmetrics_head(metric: Metric[Any]) -> str:
    """Return the HELP and TYPE lines of a family in OpenMetrics, which names a counter without ``_total``."""
    return f"# HELP {metric.family} {escape(metric.help)}\n# TYPE {metric.family} {metric.kind}\n"


@lru_cache(maxsize=4096)
def escape(value: str) -> str:
    """Escape a label value."""
    return value.translate(_LABEL_ESCAPES)


def number_text(number: float) -> str:
    """Write a number as Go does, which uses an exponent from a million on."""
    number = float(number)
    if not isfinite(number):
        return "NaN" if isnan(number) else "+Inf" if number > 0 else "-Inf"
    text = repr(number)
    point = text.find(".")
    if number > 0 and point > _LONGEST_INTEGER_PART:
        mantissa = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{point - 1:02d}"
    return text


class Labels:
    """The labels of one engine, target or arm, with room for those of a metric: each set is built once."""

    __slots__ = ("_labels", "_templates")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._templates: dict[tuple[str, ...], str] = {}

    def template(self, own: tuple[str, ...]) -> str:
        """Return ``{…}`` with ``%s`` for each of a metric's ``own`` labels, sorted by name.

        Empty without labels.
        """
        found = self._templates.get(own)
        if found is None:
            found = self._templates[own] = self._built(own)
        return found

    def _built(self, own: tuple[str, ...]) -> str:
        values = {name: escape(value).replace("%", "%%") for name, value in self._labels.items()}
        values |= dict.fromkeys(own, "%s")
        pairs = ",".join(f'{name}="{values[name]}"' for name in sorted(values))
        return f"{{{pairs}}}" if pairs else ""


def lines(metric: Metric[Any], labels: Labels, values: Values) -> Iterator[str]:
    """Yield a line for each of the ``values`` that is known."""
    if metric.kind is Kind.HISTOGRAM:
        yield from _histogram_lines(metric, labels, values)
        return
    name, template = metric.name, labels.template(metric.labels)
    order = _order(metric.labels)
    for own, number in values:
        if number is not None:
            sorted_values = own if order is None else tuple(own[place] for place in order)
            yield f"{name}{template % tuple(map(escape, sorted_values))} {number_text(number)}\n"


def _histogram_lines(metric: Metric[Any], labels: Labels, values: Values) -> Iterator[str]:
    """Yield the lines of a histogram, whose values begin with the suffix and the bucket's upper bound."""
    for (suffix, bound, *rest), number in values:
        if number is None:
            continue
        names = (*metric.labels, "le") if bound else metric.labels
        own = (*rest, bound) if bound else tuple(rest)
        order = _order(names)
        sorted_values = own if order is None else tuple(own[place] for place in order)
        text = labels.template(names) % tuple(map(escape, sorted_values))
        yield f"{metric.name}{suffix}{text} {number_text(number)}\n"


@lru_cache(maxsize=256)
def _order(names: tuple[str, ...]) -> tuple[int, ...] | None:
    """Return the places of the sorted names; None if they are sorted."""
    order = tuple(sorted(range(len(names)), key=names.__getitem__))
    return None if order == tuple(range(len(names))) else order
