"""Charts in SVG. They stretch to their container, so their labels are HTML beside them.

Positions and sizes are attributes: the security policy of the page allows no inline styles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from spec_decode_exporter.views.history import Trace
from spec_decode_exporter.web.page.markup import Markup, tag
from spec_decode_exporter.web.page.page_numbers import percent

_WIDTH, _HEIGHT = 600, 100
"""Size of a line chart, in units of its view box."""


class ChartMark(NamedTuple):
    """Event on the time axis."""

    age: float
    """Age in seconds."""
    kind: str
    """Class of the style sheet."""
    text: str


def line_chart(trace: Trace, marks: Iterable[ChartMark] = (), *, grid: bool = False) -> Markup:
    """Draw the acceptance rate over time, from 0 to 1."""
    runs = [run for run in _runs(trace) if run]
    parts = [
        tag("title", _summary(trace)),
        *(tag("line", class_="grid", x1=0, x2=_WIDTH, y1=y, y2=y) for y in (0, 25, 50, 75, 100) if grid),
        tag("path", class_="area", d="".join(_area(run) for run in runs if len(run) > 1)),
        tag("path", class_="line", d="".join(map(_line, runs))),
        *(_mark(mark, trace.seconds) for mark in marks if mark.age <= trace.seconds),
    ]
    return tag(
        "svg",
        *parts,
        class_="chart" if grid else "spark",
        role="img",
        viewbox=f"0 0 {_WIDTH} {_HEIGHT}",
        aspect="none",
    )


def bar(share: float | None, kind: str, mark: float | None = None) -> Markup:
    """Draw a bar as a share of its width, and a line at the share ``mark``."""
    parts = [tag("rect", class_="track", width=100, height=8)]
    if share is not None:
        parts.append(tag("rect", class_=kind, width=_unit(100 * share), height=8))
    if mark is not None:
        x = _unit(100 * mark)
        parts.append(tag("line", class_="mark", x1=x, x2=x, y1=0, y2=8))
    return tag("svg", *parts, class_="bar", viewbox="0 0 100 8", aspect="none", aria_hidden="true")


def range_bar(lower: float, middle: float, upper: float) -> Markup:
    """Draw a range between two shares of its width, and a line at ``middle``."""
    x = _unit(100 * middle)
    parts = (
        tag("rect", class_="track", width=100, height=8),
        tag("rect", class_="fill", x=_unit(100 * lower), width=_unit(100 * (upper - lower)), height=8),
        tag("line", class_="mark", x1=x, x2=x, y1=0, y2=8),
    )
    return tag("svg", *parts, class_="bar", viewbox="0 0 100 8", aspect="none", aria_hidden="true")


def columns(counts: Sequence[int], means: Iterable[float], title: str) -> Markup:
    """Draw a histogram over 0 to 1, and a line at each of ``means``."""
    largest, width = max(*counts, 1), _WIDTH / len(counts)
    drawn = (
        _column(_unit(place * width + 1), _unit(width - 2), _HEIGHT * count / largest)
        for place, count in enumerate(counts)
        if count
    )
    places = (_unit(_WIDTH * share) for share in means)
    lines = (tag("line", class_="mark", x1=x, x2=x, y1=0, y2=_HEIGHT) for x in places)
    return tag(
        "svg",
        tag("title", title),
        *drawn,
        *lines,
        class_="columns",
        role="img",
        viewbox=f"0 0 {_WIDTH} {_HEIGHT}",
        aspect="none",
    )


def _column(x: str, width: str, height: float) -> Markup:
    return tag("rect", class_="fill", x=x, y=_unit(_HEIGHT - height), width=width, height=_unit(height))


def _runs(trace: Trace) -> Iterator[list[str]]:
    """Yield the points of each line; unknown values interrupt it."""
    run: list[str] = []
    for age, ratio in trace.pieces:
        if ratio is not None:
            run.append(f"{_x(age, trace.seconds)} {_HEIGHT * (1 - min(ratio, 1.0)):.0f}")
        elif run:
            yield run
            run = []
    yield run


def _line(run: list[str]) -> str:
    """Draw a line; a single point becomes a dot by the round line ends."""
    return f"M{'L'.join(run)}" if len(run) > 1 else f"M{run[0]}h0"


def _area(run: list[str]) -> str:
    first, last = run[0].split()[0], run[-1].split()[0]
    return f"M{first} {_HEIGHT}L{'L'.join(run)}L{last} {_HEIGHT}Z"


def _mark(mark: ChartMark, seconds: float) -> Markup:
    x = _x(mark.age, seconds)
    line = tag("line", x1=x, x2=x, y1=0, y2=_HEIGHT)
    return tag("g", tag("title", mark.text), line, class_=f"event {mark.kind}")


def _summary(trace: Trace) -> str:
    known = [ratio for _, ratio in trace.pieces if ratio is not None]
    minutes = f"{trace.seconds / 60:g} min"
    if not known:
        return f"Nothing was drafted in the last {minutes}."
    when = "last" if trace.pieces[-1].acceptance_ratio is None else "now"
    return (
        f"Acceptance rate over the last {minutes}: {percent(known[-1])} {when}, "
        f"between {percent(min(known))} and {percent(max(known))}."
    )


def _x(age: float, seconds: float) -> str:
    return f"{_WIDTH * (1 - min(age / seconds, 1.0)):.0f}"


def _unit(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
