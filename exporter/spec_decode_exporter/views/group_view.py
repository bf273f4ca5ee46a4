"""Group engines by labels: sums of their counters, and ratios of these sums."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from spec_decode_exporter.figures.figure import Figure, GroupSum, ListFigure
from spec_decode_exporter.figures.table import shown
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.monitor.engine_snapshot import EngineSnapshot
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.views.engine_view import counts_view, id_of
from spec_decode_exporter.views.models import GroupView, GroupWindowView
from spec_decode_exporter.window.ledger import Window

Engines = Sequence[tuple[Mapping[str, str], EngineSnapshot]]

_FIGURES: Final = tuple(figure for figure in shown() if figure.in_groups is not None)


def grouped(engines: Engines, names: Sequence[str]) -> list[tuple[Mapping[str, str], Engines]]:
    """Return the engines of each combination of the values of the labels ``names``, with that combination."""
    groups: dict[tuple[str, ...], list[tuple[Mapping[str, str], EngineSnapshot]]] = {}
    for labels, snapshot in engines:
        groups.setdefault(tuple(labels.get(name, "") for name in names), []).append((labels, snapshot))
    return [(dict(zip(names, values, strict=True)), groups[values]) for values in sorted(groups)]


def group_view(labels: Mapping[str, str], members: Engines) -> GroupView:
    """Return the sums over a group's engines and the ratios of these sums."""
    return GroupView(
        labels=dict(labels),
        engines=tuple(id_of(labels) for labels, _ in members),
        verdicts=dict(Tally(snapshot.evaluation.verdict for _, snapshot in members)),
        windows=tuple(_windows([snapshot for _, snapshot in members])),
    )


def _windows(members: Sequence[EngineSnapshot]) -> Iterator[GroupWindowView]:
    by_length: dict[float, list[WindowFigures]] = {}
    for snapshot in members:
        for figures in snapshot.figures:
            by_length.setdefault(figures.window.length, []).append(figures)
    return (_window(figures) for _, figures in sorted(by_length.items()))


def _window(members: Sequence[WindowFigures]) -> GroupWindowView:
    windows = [figures.window for figures in members]
    return GroupWindowView.model_validate(
        {
            "window": members[0].label,
            "engines": len(members),
            "counts": counts_view(_sum(windows)),
            **{figure.key: _value(figure, members, windows) for figure in _FIGURES},
        }
    )


def _value(
    figure: Figure, members: Sequence[WindowFigures], windows: Sequence[Window]
) -> Sequence[float | None] | float | None:
    """Return a figure of a group: the formula on the members' sums, or the sum of their values."""
    if isinstance(figure, ListFigure):
        same = _of_equal_tokens(windows)
        return tuple(figure.formula(_sum(same))) if same else ()
    if figure.in_groups is GroupSum.SUM:
        return _added(each.number(figure) for each in members)
    counted = [
        window for window in windows if all(window[counter] is not None for counter in figure.counters)
    ]
    return figure.formula(_sum(counted), None) if counted else None


def _added(values: Iterator[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _of_equal_tokens(windows: Sequence[Window]) -> Sequence[Window]:
    """Return the windows with positions; none if their K differs, since positions are then not comparable."""
    counted = [window for window in windows if window.positions and window[Counter.DRAFTS] is not None]
    return counted if len({len(window.positions) for window in counted}) == 1 else ()


def _sum(windows: Sequence[Window]) -> Window:
    """Return the sums of the known counters, without gauges and increments."""
    same = _of_equal_tokens(windows)
    return Window(
        length=windows[0].length,
        seconds=max(window.seconds for window in windows),
        polls=max(window.polls for window in windows),
        counters=tuple(_total(window[counter] for window in windows) for counter in Counter),
        positions=tuple(map(sum, zip_longest(*(window.positions for window in same), fillvalue=0))),
        gauges=(),
    )


def _total(counts: Iterator[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
