"""Write the page: one pass over the metric table, in the text format of Prometheus or in OpenMetrics.

The labels of a line are sorted by name, as prometheus_client sorts them. A line is a template with a place
for each label of the engine, made once for all engines and pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Final

from spec_decode_exporter.metrics.metric import Metric
from spec_decode_exporter.metrics.table import METRICS
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.config.schema import Metrics, Profile

_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_PROFILES: Final = tuple(Profile)
_MAX_DIGITS: Final = 6
"""Digits before the point, up to which Go writes a number without an exponent."""


@dataclass(frozen=True, slots=True)
class Selected:
    """A metric of the page."""

    metric: Metric
    is_full: bool
    """True if it has the windows of the profile ``full``."""


def selected_metrics(settings: Metrics) -> tuple[Selected, ...]:
    """Return the metrics of a configuration: a name precedes its group, enabling precedes disabling."""
    profile = _PROFILES.index(settings.profile)
    found = []
    for metric in METRICS:
        is_enabled = _switch(metric, settings)
        if is_enabled is None and _PROFILES.index(metric.profile) <= profile:
            found.append(Selected(metric, settings.profile is Profile.FULL))
        elif is_enabled:
            found.append(Selected(metric, is_full=True))
    return tuple(found)


def _switch(metric: Metric, settings: Metrics) -> bool | None:
    for key in (metric.name, str(metric.group)):
        if key in settings.enable or key in settings.disable:
            return key in settings.enable
    return None


def page(
    selected: Sequence[Selected],
    engines: Sequence[tuple[Mapping[str, str], EngineSnapshot]],
    *,
    is_open: bool,
) -> Iterator[str]:
    """Yield the families that have lines, for engines with the same label names; ``is_open``: OpenMetrics."""
    names = tuple(sorted(engines[0][0])) if engines else ()
    written = [
        (tuple(label_text(name, labels[name]) for name in names), engine) for labels, engine in engines
    ]
    for each in selected:
        lines = [
            f"{_template(each.metric, names, own) % texts} {number_text(number)}\n"
            for texts, engine in written
            for own, number in each.metric.series(engine, is_full=each.is_full)
            if number is not None
        ]
        if lines:
            yield f"{_header(each.metric, is_open=is_open)}{''.join(lines)}"
    if is_open:
        yield "# EOF\n"


def _header(metric: Metric, *, is_open: bool) -> str:
    name, kind = metric.name, metric.kind
    if is_open and kind == "counter":
        name = name.removesuffix("_total")
    elif not is_open and kind == "unknown":
        kind = "untyped"
    return f"# HELP {name} {metric.help}\n# TYPE {name} {kind}\n"


@lru_cache(maxsize=20_000)
def _template(metric: Metric, names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Return the name and labels of a line, with ``%s`` for each label of the engine."""
    suffix, own = "", dict(zip(metric.label_names, values, strict=False))
    if metric.kind == "histogram":
        suffix, bound = values
        own = {"le": bound} if bound else {}
    texts = {name: label_text(name, value).replace("%", "%%") for name, value in own.items()}
    labels = ",".join(texts.get(name, "%s") for name in sorted({*names, *own}))
    return f"{metric.name}{suffix}{{{labels}}}" if labels else f"{metric.name}{suffix}"


def label_text(name: str, value: str) -> str:
    """Write a label with its value escaped."""
    return f'{name}="{value.translate(_ESCAPES)}"'


def number_text(number: float) -> str:
    """Write a finite number as Go does.

    Raises:
        ValueError: The number is not finite.
    """
    text = repr(float(number))
    if 0 <= number < 10.0**_MAX_DIGITS:
        return text
    if not isfinite(number):
        raise ValueError(f"a number is {number}")
    point = text.find(".")
    if number > 0 and point > _MAX_DIGITS:
        mantissa = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{point - 1:02d}"
    return text
