"""Metrics of the figure table: one for each figure, and two for the bounds of each figure that has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from spec_decode_exporter.config.schema import Group
from spec_decode_exporter.figures.figure import Figure, ListFigure, MetricWindows, ScalarFigure
from spec_decode_exporter.figures.table import shown
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.metrics.metric import Metric, MetricKind, Values
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot

_SIDES = ("lower", "upper")


def figure_metrics(group: Group, *, bounded: bool | None = None) -> tuple[Metric[EngineSnapshot], ...]:
    """Return the metrics of a group's figures in the order of the table; with ``bounded`` only a part."""
    return tuple(
        _metric(figure, group)
        for figure in shown()
        if figure.group is group and bounded in {None, _has_bounds(figure)}
    )


def bound_metrics(group: Group) -> tuple[Metric[EngineSnapshot], ...]:
    """Return the metrics of the bounds of a group's figures."""
    return tuple(
        Metric(
            f"{figure.metric}_{side}",
            MetricKind.GAUGE,
            group,
            f"The {side} 95 % bound of {figure.metric} in the window.",
            partial(_read_bound, figure, side),
            labels=_window_labels(figure),
            stability=figure.stability,
            source=figure.source,
        )
        for figure in shown()
        if isinstance(figure, ScalarFigure) and _has_bounds(figure) and figure.group is group
        for side in _SIDES
    )


def _has_bounds(figure: Figure) -> bool:
    return isinstance(figure, ScalarFigure) and figure.bounds is not None


def _metric(figure: Figure, group: Group) -> Metric[EngineSnapshot]:
    read: Callable[[EngineSnapshot], Values] = (
        partial(_read_list, figure) if isinstance(figure, ListFigure) else partial(_read_scalar, figure)
    )
    index = (figure.index,) if isinstance(figure, ListFigure) else ()
    return Metric(
        figure.metric,
        MetricKind.GAUGE,
        group,
        figure.description,
        read,
        labels=(*_window_labels(figure), *index),
        stability=figure.stability,
        source=figure.source,
    )


def _windows(figure: Figure, snapshot: EngineSnapshot) -> Sequence[WindowFigures]:
    return snapshot.figures if figure.windows is MetricWindows.EACH else snapshot.figures[-1:]


def _window_labels(figure: Figure) -> tuple[str, ...]:
    return () if figure.windows is MetricWindows.LONGEST_UNLABELED else ("window",)


def _read_scalar(figure: ScalarFigure, snapshot: EngineSnapshot) -> Values:
    labelled = _window_labels(figure)
    return [
        ((window.label,) if labelled else (), window.number(figure)) for window in _windows(figure, snapshot)
    ]


def _read_list(
    figure: ListFigure, snapshot: EngineSnapshot
) -> Iterator[tuple[tuple[str, ...], float | None]]:
    for window in _windows(figure, snapshot):
        for place, value in enumerate(window.numbers(figure)):
            yield (window.label, str(place)), value


def _read_bound(figure: ScalarFigure, side: str, snapshot: EngineSnapshot) -> Values:
    labelled = _window_labels(figure)
    return [
        ((window.label,) if labelled else (), getattr(window.bounds(figure), side, None))
        for window in _windows(figure, snapshot)
    ]
