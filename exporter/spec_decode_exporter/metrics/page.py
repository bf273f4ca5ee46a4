"""Write the page: one pass over the metric table, in the text format of Prometheus or in OpenMetrics.

The bytes are those of prometheus_client, which sorts the labels of a line by name.

Text format: https://prometheus.io/docs/instrumenting/exposition_formats/; OpenMetrics 1.0:
https://prometheus.io/docs/specs/om/open_metrics_spec/.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import groupby
from math import inf, isfinite
from operator import itemgetter, methodcaller
from typing import Any, Final, NamedTuple

from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from spec_decode_exporter.config.schema import Group, Metrics, Profile
from spec_decode_exporter.core.isolation import NO_ITEM, Isolation
from spec_decode_exporter.core.tasks import yield_to_event_loop
from spec_decode_exporter.metrics.metric import Metric, Windows
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.subject import ENGINE, Parts, Subject
from spec_decode_exporter.metrics.table import METRICS
from spec_decode_exporter.monitor.snapshot import EngineSnapshot, Snapshot

SLICE_SECONDS: Final = 0.005
"""Time after which other tasks run. An engine's part of a family comes on top: a millisecond at most."""
PIECE_CHARACTERS: Final = 2**17
"""Characters of a page after which a piece ends: larger ones would leave holes in the memory."""
_SLACK: Final = 1.0  # seconds by which two pages may be later than two evaluations
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_LONG: Final = 1e6  # number from which on Go writes an exponent
_PART: Final = "metrics"  # part of the log for labels and process metrics; that of a family is its name
Row = tuple[Metric, Windows | None]  # a metric, and its windows in a configuration
Evaluated = Mapping[Row, int]
"""Metrics of an evaluation, whose lines are written with it, and their places among these."""


class _View(NamedTuple):
    """Subject with its windows, and with its labels by name and as they are written."""

    labels: Mapping[str, str]
    names: tuple[str, ...]
    texts: tuple[str, ...]
    subject: Any
    parts: Parts[Any]  # its windows; empty if all that is about them is prepared
    prepared: Sequence[str]
    """Lines that were written with the evaluation, in the order of their metrics; empty if none were."""

    @classmethod
    def of(cls, subject: Subject, evaluated: Evaluated, labelled: tuple[Mapping[str, str], Any]) -> _View:
        (labels, part), names = labelled, tuple(sorted(labelled[0]))
        texts = tuple(label_text(name, labels[name]) for name in names)
        written = part.lines.get(texts) if subject is ENGINE else None
        prepared = written[1] if written and written[0] is evaluated else ()
        return cls(labels, names, texts, part, () if prepared else subject.parts(part), prepared)

    def lines(self, row: Row) -> str:
        """Return the lines of a metric."""
        lines, (metric, windows) = "", row
        if windows is None and metric.has_one:  # without a generator in half the time
            found: Any = (((), metric.read(self.subject)),)
        else:
            found = metric.series(self.subject, self.parts, windows)
        for own, number in found:
            if number is not None:
                lines += f"{_template(metric, self.names, own) % self.texts} {number_text(number)}\n"
        return lines


@lru_cache(maxsize=16)
def selected_metrics(settings: Metrics) -> Sequence[Row]:
    """Return the metrics of a configuration and their windows; an enabled group has all of them."""
    rank, is_full = [*Profile].index, settings.profile is Profile.FULL
    enabled, shown = set(settings.enable), {*Group} - set(settings.disable)
    return [
        (metric, metric.windows if is_full or metric.group in enabled else metric.reduced or metric.windows)
        for metric in METRICS
        if metric.group in enabled
        or (metric.group in shown and rank(metric.profile) <= rank(settings.profile))
    ]


@lru_cache(maxsize=16)
def _evaluated(settings: Metrics) -> Evaluated:
    """Return all metrics of engines but the sums until the newest poll; a reset is evaluated at once."""
    of_engines = (row for row in selected_metrics(settings) if row[0].subject is ENGINE)
    rows = (row for row in of_engines if row[0].group is not Group.COUNTERS)
    return {row: place for place, row in enumerate(rows)}


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
        self._rendered = deque([-inf], maxlen=2)  # moments of the last pages

    def prepare(self, labels: Mapping[str, str], engine: EngineSnapshot, pace: float) -> None:
        """Write the lines of an engine with its evaluation, so that pages only join them.

        Only if pages are read as often as engines are evaluated, each ``pace`` seconds. Columns are dropped.
        """
        if self._now() - self._rendered[0] < 2 * pace + _SLACK:
            evaluated, attempt = _evaluated(self._settings()), self._errors.attempt
            view = _View.of(ENGINE, evaluated, (labels, engine))
            lines = [attempt(row[0].name, labels, partial(view.lines, row)) or "" for row in evaluated]
            engine.lines[view.texts] = evaluated, lines
            engine.evaluation.release_columns()

    async def render(self, snapshot: Snapshot, format_: Format) -> AsyncIterator[bytes]:
        """Yield the page in pieces; other tasks run between them.

        The pieces are not kept, so that a large page is never in memory as a whole.
        """
        text, size = list[str](), 0
        self._rendered.append(self._now())
        until = self._now() + SLICE_SECONDS
        for lines in self._lines(snapshot, is_open=format_.is_open):
            text.append(lines)
            size += len(lines)
            if size >= PIECE_CHARACTERS or self._now() >= until:
                yield "".join(text).encode()
                text, size = [], 0
                await yield_to_event_loop()
                until = self._now() + SLICE_SECONDS
        yield "".join(text).encode()

    def text(self, snapshot: Snapshot, format_: Format = Format.TEXT_0_0_4) -> str:
        """Return the whole page, without a pause."""
        return "".join(self._lines(snapshot, is_open=format_.is_open))

    def _lines(self, snapshot: Snapshot, *, is_open: bool) -> Iterator[str]:
        """Yield the lines of each family for each engine; a family without lines has no header."""
        settings = self._settings()
        evaluated, runs = _evaluated(settings), dict[Subject, list[list[_View]]]()
        for row in selected_metrics(settings):
            metric, place = row[0], evaluated.get(row)
            if metric.subject not in runs:
                runs[metric.subject] = list(self._runs(metric.subject, evaluated, snapshot))
            # Only names of counters end in ``_total``, which those of families in OpenMetrics lack.
            name = metric.name.removesuffix("_total") if is_open else metric.name
            head, lines_of = _header(name, metric.help, metric.kind), methodcaller("lines", row)
            for run in runs[metric.subject]:
                if place is not None and run[0].prepared:
                    written = iter(["".join([view.prepared[place] for view in run])])
                else:
                    written = self._errors.each(metric.name, run, itemgetter(0), lines_of)
                for lines in filter(None, written):
                    yield head + lines
                    head = ""
        for collector in self._collectors:
            for family in self._errors.whole(_PART, NO_ITEM, collector.collect):
                write = partial(_library_lines, family, is_open=is_open)
                yield self._errors.attempt(family.name, NO_ITEM, write) or ""
        if is_open:
            yield "# EOF\n"

    def _runs(self, subject: Subject, evaluated: Evaluated, snapshot: Snapshot) -> Iterator[list[_View]]:
        """Write the labels of views; omit a view that has other label names than the first.

        In a run of views all are prepared, or none.
        """
        names: set[tuple[str, ...]] = set()

        def written(labelled: tuple[Mapping[str, str], object]) -> _View:
            view = _View.of(subject, evaluated, labelled)
            if names and view.names not in names:
                raise ValueError(f"the labels are {view.names}, and those of the others {names}")
            names.add(view.names)
            return view

        found = self._errors.whole(_PART, NO_ITEM, lambda: subject.views(snapshot))
        views = self._errors.each(_PART, found, itemgetter(0), written)
        return (list(run) for _, run in groupby(views, lambda view: bool(view.prepared)))


def _header(name: str, text: str, kind: str) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


@lru_cache(maxsize=4096)
def _template(metric: Metric, names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Return a line's name and labels by its own label values, with ``%s`` for each label of the subject.

    Raises:
        ValueError: The values are not those of the metric's labels.
    """
    suffix, own = "", dict[str, str]()
    if metric.kind == "histogram":
        suffix, bound = values
        own = {"le": bound} if bound else {}
    else:
        own = dict(zip(metric.label_names, values, strict=True))
    texts = {name: label_text(name, value).replace("%", "%%") for name, value in own.items()}
    labels = ",".join(texts.get(name, "%s") for name in sorted({*names, *own}))
    return f"{metric.name}{suffix}{{{labels}}}" if labels else f"{metric.name}{suffix}"


def _library_lines(family: Family, *, is_open: bool) -> str:
    """Return the lines of a family of prometheus_client, without its time of creation."""
    suffix = "_total" if family.type == "counter" and not is_open else ""
    lines = [_header(f"{family.name}{suffix}", family.documentation, family.type)]
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
    if 0 <= number < _LONG:
        return text
    if not isfinite(number):
        raise ValueError(f"a number is {number}")
    point = text.find(".")
    if number > 0 and point > 1:  # not yet with an exponent
        mantissa = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{point - 1:02d}"
    return text
