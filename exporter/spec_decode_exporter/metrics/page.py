"""Write the page: one pass over the metric table, in the text format of Prometheus or in OpenMetrics.

The bytes are those of prometheus_client, which sorts the labels of a line by name. A line is a template with
a place for each label of its subject, made once for all engines and pages.

Text format: https://prometheus.io/docs/instrumenting/exposition_formats/; OpenMetrics 1.0:
https://prometheus.io/docs/specs/om/open_metrics_spec/.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from operator import itemgetter
from typing import Any, Final, NamedTuple

from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from spec_decode_exporter.analysis.figure_table import Windows
from spec_decode_exporter.config.schema import Metrics, Profile
from spec_decode_exporter.core.isolation import NO_ITEM, Isolation
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.metrics.metric import Metric
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.subject import Parts, Subject
from spec_decode_exporter.metrics.table import METRICS
from spec_decode_exporter.monitor.snapshot import Snapshot

SLICE_SECONDS: Final = 0.005
"""Time after which other tasks run. An engine's part of a family comes on top: a millisecond at most."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_PROFILES: Final = tuple(Profile)
_MAX_DIGITS: Final = 6
"""Digits before the point, up to which Go writes a number without an exponent."""
_SHORT: Final = 10.0**_MAX_DIGITS
_PART: Final = "metrics"
"""Part of the log for labels and process metrics; that of a family is its name."""


class _View(NamedTuple):
    """Subject with its windows, and with its labels by name and as they are written."""

    labels: Mapping[str, str]
    texts: tuple[str, ...]
    subject: Any
    parts: Parts[Any]


def selected_metrics(settings: Metrics) -> Iterator[tuple[Metric, Windows | None]]:
    """Yield the metrics of a configuration and their windows; an enabled group has all of them."""
    profile = _PROFILES.index(settings.profile)
    for metric in METRICS:
        if str(metric.group) in settings.enable:
            yield metric, metric.windows
        elif str(metric.group) not in settings.disable and _PROFILES.index(metric.profile) <= profile:
            is_full = settings.profile is Profile.FULL
            yield metric, metric.windows if is_full else metric.reduced or metric.windows


class MetricsPage:
    """Writes snapshots as pages.

    A row that raises for an engine, or has a number that is not finite, leaves out its family for that engine
    alone, and is logged once.
    """

    def __init__(
        self,
        settings: Callable[[], Metrics],
        errors: Isolation | None = None,
        collectors: Sequence[Collector] = (),
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Write the metrics of the present ``settings``, then those of collectors, such as of the process."""
        self._settings = settings
        self._errors = errors or Isolation()
        self._collectors = collectors
        self._now = now

    async def render(self, snapshot: Snapshot, format_: Format) -> AsyncIterator[bytes]:
        """Yield the page in pieces; other tasks run between them.

        The pieces are not kept, so that a large page is never in memory as a whole.
        """
        text: list[str] = []
        until = self._now() + SLICE_SECONDS
        for lines in self._lines(snapshot, is_open=format_.is_open):
            text.append(lines)
            if self._now() >= until:
                yield "".join(text).encode()
                text.clear()
                await yield_to_event_loop()
                until = self._now() + SLICE_SECONDS
        yield "".join(text).encode()

    def text(self, snapshot: Snapshot, format_: Format = Format.TEXT_0_0_4) -> str:
        """Return the whole page, without a pause."""
        return "".join(self._lines(snapshot, is_open=format_.is_open))

    def _lines(self, snapshot: Snapshot, *, is_open: bool) -> Iterator[str]:
        """Yield the lines of each family for each engine; a family without lines has no header."""
        views: dict[Subject, list[_View]] = {}
        for metric, windows in selected_metrics(self._settings()):
            if metric.subject not in views:
                views[metric.subject] = list(self._views(metric.subject, snapshot))
            yield from self._family(metric, windows, views[metric.subject], is_open=is_open)
        for collector in self._collectors:
            for family in self._errors.whole(_PART, NO_ITEM, collector.collect):
                write = partial(_library_lines, family, is_open=is_open)
                yield self._errors.attempt(family.name, NO_ITEM, write) or ""
        if is_open:
            yield "# EOF\n"

    def _views(self, subject: Subject, snapshot: Snapshot) -> Iterator[_View]:
        """Write the labels of views; omit a view that has other label names than the first."""
        names: set[tuple[str, ...]] = set()

        def written(view: tuple[Mapping[str, str], object]) -> _View:
            labels, own = view[0], tuple(sorted(view[0]))
            if names and own not in names:
                raise ValueError(f"the labels are {own}, and those of the others {names}")
            names.add(own)
            texts = tuple(label_text(name, labels[name]) for name in own)
            return _View(labels, texts, view[1], subject.parts(view[1]))

        found = self._errors.whole(_PART, NO_ITEM, lambda: subject.views(snapshot))
        return self._errors.each(_PART, found, itemgetter(0), written)

    def _family(
        self, metric: Metric, windows: Windows | None, views: Sequence[_View], *, is_open: bool
    ) -> Iterator[str]:
        name = metric.family if is_open else metric.name
        head = _header(name, metric.help, metric.kind, is_open=is_open)
        templates = _Templates(metric, tuple(sorted(views[0].labels)) if views else ())

        def written(view: _View) -> str:
            texts, lines = view.texts, ""
            for own, number in metric.series(view.subject, view.parts, windows):
                if number is not None:
                    lines += f"{templates[own] % texts} {number_text(number)}\n"
            return lines

        def written_plain(view: _View) -> str:
            texts, lines = view.texts, ""
            for label, part in metric.places(view.subject, view.parts, windows):
                number: Any = None if part is None else metric.read(part)
                if number is not None:
                    own = templates[(label,) if label else ()]
                    lines += f"{own % texts} {number_text(number)}\n"
            return lines

        write = written_plain if metric.is_plain else written  # most are plain, and need no list of series
        for lines in self._errors.each(metric.name, views, itemgetter(0), write):
            if lines:
                yield head + lines
                head = ""


def _header(name: str, text: str, kind: str, *, is_open: bool) -> str:
    written = "untyped" if kind == "unknown" and not is_open else kind
    return f"# HELP {name} {text}\n# TYPE {name} {written}\n"


class _Templates(dict[tuple[str, ...], str]):
    """Name and labels of a line by its own label values, with ``%s`` for each label of the subject."""

    def __init__(self, metric: Metric, names: tuple[str, ...]) -> None:
        """Write lines of a metric whose subject has labels with these names."""
        self._metric, self._names = metric, names

    def __missing__(self, values: tuple[str, ...]) -> str:
        """Make a template.

        Raises:
            ValueError: The values are not those of the metric's labels.
        """
        metric, suffix = self._metric, ""
        if metric.kind == "histogram":
            suffix, bound = values
            own = {"le": bound} if bound else {}
        else:
            own = dict(zip(metric.label_names, values, strict=True))
        texts = {name: label_text(name, value).replace("%", "%%") for name, value in own.items()}
        labels = ",".join(texts.get(name, "%s") for name in sorted({*self._names, *own}))
        self[values] = f"{metric.name}{suffix}{{{labels}}}" if labels else f"{metric.name}{suffix}"
        return self[values]


def _library_lines(family: Family, *, is_open: bool) -> str:
    """Return the lines of a family of prometheus_client, without its time of creation."""
    suffix = "_total" if family.type == "counter" and not is_open else ""
    lines = [_header(f"{family.name}{suffix}", family.documentation, family.type, is_open=is_open)]
    for sample in family.samples:
        labels = ",".join(label_text(name, value) for name, value in sorted(sample.labels.items()))
        if sample.name != f"{family.name}_created":
            lines.append(f"{sample.name}{f'{{{labels}}}' if labels else ''} {number_text(sample.value)}\n")
    return "".join(lines)


def label_text(name: str, value: str) -> str:
    """Write a label with its value escaped; its name is written as it is."""
    return f'{name}="{value.translate(_ESCAPES)}"'


def number_text(number: float) -> str:
    """Write a finite number as Go does.

    Raises:
        ValueError: The number is not finite.
        OverflowError: It is an integer that no float can represent.
    """
    text = repr(float(number))
    if 0 <= number < _SHORT:
        return text
    if not isfinite(number):
        raise ValueError(f"a number is {number}")
    point = text.find(".")
    if number > 0 and point > _MAX_DIGITS:
        mantissa = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{point - 1:02d}"
    return text
