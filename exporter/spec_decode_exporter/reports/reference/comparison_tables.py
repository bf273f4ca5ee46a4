"""Tables of a comparison: each figure before and after, in a unit that is easy to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.figure_table import COMPARED, Figure, Line, Unit
from spec_decode_exporter.core.number_formats import percent, plain, three_digits, within
from spec_decode_exporter.figures.quantile import Edges
from spec_decode_exporter.reports.reference.comparison import Comparison, Difference
from spec_decode_exporter.scrape.engines import Latency

NOTE: Final = "* beyond chance: the 95 % bounds of the change do not reach 0."
NONE: Final = "-"
_MILLISECOND: Final = 1e-3


class TableRow(NamedTuple):
    """A figure before and after."""

    name: str
    before: str
    after: str
    change: str
    """With a star if it is statistically significant (95 %)."""
    bounds: str
    """Of the change, 95 %."""


class Table(NamedTuple):
    """A table of related figures."""

    title: str
    rows: tuple[TableRow, ...]


def _points(value: float) -> str:
    return f"{value * 100:+.1f}"


def _more_tokens(value: float) -> str:
    return f"{value:+.2f}"


def _number(value: float) -> str:
    return three_digits(value, 2)


def _more(value: float) -> str:
    return three_digits(value, 2, signed=True)


def _time(value: float) -> str:
    return f"{_number(value * 1000)} ms"


def _more_time(value: float) -> str:
    return _more(value * 1000)


class _Unit(NamedTuple):
    value: Callable[[float], str]
    change: Callable[[float], str]
    relative: bool = False
    """True if the change is also written in percent of the value before."""


_SHARE = _Unit(percent, _points)
_TOKENS = _Unit(plain, _more_tokens)
_TIME = _Unit(_time, _more_time, relative=True)
_NUMBER = _Unit(_number, _more, relative=True)

_FORMATS: Final = {
    Unit.SHARE: _SHARE,
    Unit.FACTOR: _TOKENS,
    Unit.NUMBER: _NUMBER,
    Unit.TOKENS: _TOKENS,
    Unit.SECONDS: _TIME,
    Unit.PER_SECOND: _NUMBER,
    Unit.REQUESTS: _NUMBER,
}

_LATENCIES: Final = {
    Latency.TIME_TO_FIRST_TOKEN: "time to first token",
    Latency.TIME_PER_OUTPUT_TOKEN: "time per output token",
    Latency.END_TO_END: "end to end",
    Latency.QUEUE: "queue",
}
"""Latencies that users notice, without that of a decode step."""


def tables(comparison: Comparison) -> Iterator[Table]:
    """Yield the tables of a comparison, the most important first."""
    acceptance, *others = (
        Table(title, tuple(_figures(comparison, rows))) for title, rows in _sections().items()
    )
    yield acceptance
    yield Table("Accepted up to and including each position", tuple(_positions(comparison.positions)))
    yield Table(
        "Accepted at each position, of those that got there", tuple(_positions(comparison.conditional))
    )
    yield from others
    yield Table("Latency of requests, by the server's histograms", tuple(_latencies(comparison)))


def _sections() -> dict[str, list[tuple[Line, Figure]]]:
    """Return lines and figures of each table, tables and lines in their order."""
    sections: dict[str, list[tuple[Line, Figure]]] = {}
    for figure in COMPARED:
        if figure.compared is not None and figure.compared.section:
            sections.setdefault(figure.compared.section, []).append((figure.compared, figure))
    return {title: sorted(rows, key=lambda row: row[0].place) for title, rows in sections.items()}


def _figures(comparison: Comparison, rows: list[tuple[Line, Figure]]) -> Iterator[TableRow]:
    for line, figure in rows:
        if figure.key in comparison.quantities:
            yield _row(line.name, comparison.quantities[figure.key], _FORMATS[figure.unit])


def _positions(differences: tuple[Difference | None, ...]) -> Iterator[TableRow]:
    for position, difference in enumerate(differences):
        if difference is not None:
            yield _row(f"position {position}", difference, _SHARE)


def _latencies(comparison: Comparison) -> Iterator[TableRow]:
    sides = comparison.before.latency_seconds, comparison.after.latency_seconds
    for (latency, quantile), difference in comparison.latencies.items():
        if latency in _LATENCIES:
            row = _row(f"{_LATENCIES[latency]} {quantile.name}", difference, _TIME)
            yield _within(row, difference, *(side[latency].edges(quantile) for side in sides))


def _within(row: TableRow, difference: Difference, before: Edges | None, after: Edges | None) -> TableRow:
    """Write the edges of buckets that are far apart instead of the interpolated quantile."""
    texts = {
        side: within(*edges, _MILLISECOND, "ms")
        for side, edges in (("before", before), ("after", after))
        if edges is not None and edges.are_far_apart
    }
    if not texts:
        return row
    moved = f"{'more' if difference.change > 0 else 'less'} *" if difference.is_beyond_chance else NONE
    return row._replace(**texts, change=moved)


def _row(name: str, difference: Difference, unit: _Unit) -> TableRow:
    return TableRow(
        name,
        unit.value(difference.before.value),
        unit.value(difference.after.value),
        unit.change(difference.change)
        + _percent(difference, unit)
        + (" *" if difference.is_beyond_chance else ""),
        NONE
        if difference.lower is None or difference.upper is None
        else f"{unit.change(difference.lower)} to {unit.change(difference.upper)}",
    )


def _percent(difference: Difference, unit: _Unit) -> str:
    ratio = difference.ratio if unit.relative else None
    return "" if ratio is None else f" ({(ratio - 1) * 100:+.0f} %)"
