"""Write the metrics of a snapshot: one pass over the metric tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final, Generic, NamedTuple

from spec_decode_exporter.core.internal_errors import InternalErrors
from spec_decode_exporter.metrics.engine_metrics import ENGINE_METRICS
from spec_decode_exporter.metrics.experiment_metrics import EXPERIMENT_METRICS
from spec_decode_exporter.metrics.line_writer import LineWriter, ViewLabels
from spec_decode_exporter.metrics.metric import Metric, Read, Subject
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.own_metrics import EXPORTER_METRICS, TARGET_METRICS
from spec_decode_exporter.metrics.page_writer import PIECE_WORK, Piece, header
from spec_decode_exporter.metrics.request_metrics import REQUEST_METRICS
from spec_decode_exporter.metrics.selection import Selection
from spec_decode_exporter.metrics.split_findings import single_parts
from spec_decode_exporter.monitor.snapshot import Snapshot

Views = Iterable[tuple[Mapping[str, str], Subject]]
"""The inputs of the rows of a part, each with the labels of its samples."""

Split = Callable[[Subject], Iterable[tuple[Mapping[str, str], Subject]]]
"""Function that splits a view into items, each with the labels that name it in the log."""


@dataclass(frozen=True, slots=True)
class PagePart(Generic[Subject]):
    """Rows of one metric table, and the part of a snapshot that they read."""

    metrics: Sequence[Metric[Subject]]
    views: Callable[[Snapshot], Views[Subject]] = field(repr=False)
    split: Split[Subject] | None = None
    """Function that splits a view of many items, each named for the log, if a row cannot read the whole."""


PARTS: tuple[PagePart[Any], ...] = (
    PagePart(ENGINE_METRICS, lambda snapshot: snapshot.engines),
    PagePart(EXPERIMENT_METRICS, lambda snapshot: snapshot.experiments),
    PagePart(
        REQUEST_METRICS,
        lambda snapshot: [({}, snapshot.requests)] if snapshot.requests.enabled else [],
        single_parts,
    ),
    PagePart(TARGET_METRICS, lambda snapshot: snapshot.targets),
    PagePart(EXPORTER_METRICS, lambda snapshot: snapshot.exporter),
)

_PART: Final = "metrics"
"""The part of the log for views."""
_SPLIT: Final = "request metrics"
"""The part of the log for single groups, models and users of requests."""


class _View(NamedTuple):
    """View with its labels, for the log and as they are written."""

    labels: Mapping[str, str]
    written: ViewLabels
    subject: Any


class SnapshotWriter:
    """Writer of every metric that is switched on."""

    def __init__(
        self,
        selection: Callable[[], Selection],
        errors: InternalErrors | None = None,
    ) -> None:
        """Read ``selection`` once a page, and write the selected metrics."""
        self._selection = selection
        self._errors = errors or InternalErrors()
        self._writers: dict[str, LineWriter] = {}
        """Writer of each metric, for the label names of the last page."""

    def pieces(self, snapshot: Snapshot, format_: Format) -> Iterator[Piece]:
        """Yield the families that have lines.

        If a row cannot read an engine, target, arm or request group, only that family lacks it.
        """
        selection = self._selection()
        for part in PARTS:
            views = self._views(part.views(snapshot))
            for metric in part.metrics if views else ():
                if metric.name in selection.names:
                    yield from self._family(part, selection.reduced(metric), views, format_)

    def _views(self, views: Views[Subject]) -> list[_View]:
        """Write the labels of views; omit a view that has other labels than the first."""
        names: list[tuple[str, ...]] = []

        def written(view: tuple[Mapping[str, str], Subject]) -> _View:
            labels = ViewLabels(view[0])
            names.append(labels.names)
            if labels.names != names[0]:
                raise ValueError(f"the labels are {labels.names}, and those of the others {names[0]}")
            return _View(view[0], labels, view[1])

        return list(self._errors.each(_PART, views, lambda view: view[0], written))

    def _family(
        self, part: PagePart[Any], metric: Metric[Any], views: Sequence[_View], format_: Format
    ) -> Iterator[Piece]:
        """Yield the pieces of a family; none if it has no lines."""
        lines, work, head = [], 0, header(metric.family, metric.help, metric.kind, format_)
        for written in self._lines(part, metric, views):
            if written and head:
                lines.append(head)
                head = ""
            lines += written
            work += 1 + len(written)
            if work >= PIECE_WORK:
                yield Piece("".join(lines), work)
                lines, work = [], 0
        yield Piece("".join(lines), work)

    def _lines(
        self, part: PagePart[Any], metric: Metric[Any], views: Sequence[_View]
    ) -> Iterator[Sequence[str]]:
        """Yield the lines of a metric for each view that it can read."""
        writer = self._writer(metric, views[0].written.names)
        lines: Callable[[_View], Sequence[str]] = partial(_view_lines, metric.read, writer)
        if part.split is not None and "model_name" in metric.labels:
            lines = partial(self._split_lines, part.split, metric, writer)
        return self._errors.each(_PART, views, lambda view: view.labels, lines)

    def _writer(self, metric: Metric[Any], names: tuple[str, ...]) -> LineWriter:
        """Return the writer of a metric: the one of the last page, unless the labels of views changed."""
        writer = self._writers.get(metric.name)
        if writer is None or writer.names != names:
            writer = self._writers[metric.name] = LineWriter(metric, names)
        return writer

    def _split_lines(
        self, split: Split[Subject], metric: Metric[Subject], writer: LineWriter, view: _View
    ) -> Sequence[str]:
        """Return a row's lines of one view; item by item if the row cannot read the whole."""
        if not self._errors.is_failing(_SPLIT):
            with suppress(Exception):  # the item that is the cause is logged below
                return _view_lines(metric.read, writer, view)
        each = self._errors.each(
            _SPLIT,
            split(view.subject),
            lambda named: named[0],
            lambda named: _view_lines(metric.read, writer, view._replace(subject=named[1])),
        )
        return list(chain.from_iterable(each))


def _view_lines(read: Read[Any], writer: LineWriter, view: _View) -> Sequence[str]:
    return writer.lines(view.written, read(view.subject))
