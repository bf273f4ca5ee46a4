"""Lines of the report that come from the figure table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from spec_decode_exporter.analysis.figure_table import FIGURES, Line, Unit
from spec_decode_exporter.core import number_formats as numbers
from spec_decode_exporter.reports.parts import Figure
from spec_decode_exporter.views.document import Estimated
from spec_decode_exporter.views.window_view import WindowView

_FORMATS: Final[Mapping[Unit, Callable[[float | None], str]]] = {
    Unit.SHARE: numbers.share,
    Unit.FACTOR: numbers.plain,
    Unit.NUMBER: numbers.plain,
    Unit.TOKENS: numbers.plain,
    Unit.SECONDS: numbers.duration,
    Unit.PER_SECOND: numbers.rate,
    Unit.REQUESTS: numbers.plain,
}


def figure_lines(section: str, window: WindowView, meanings: Mapping[str, str]) -> Iterator[Figure]:
    """Yield the lines of a section; ``meanings`` replace those of the table, by the keys of figures."""
    for key, unit, line in _lines(section):
        value = getattr(window, key)
        meaning = meanings.get(key, line.meaning)
        write = _FORMATS[unit]
        if isinstance(value, Estimated):
            digits = 3 if unit is Unit.SHARE else 2
            span = numbers.bounds(value.lower, value.upper, digits)
            yield Figure(line.name, write(value.value), span, meaning)
        elif value is not None:
            yield Figure(line.name, write(value), "", meaning)


def _lines(section: str) -> list[tuple[str, Unit, Line]]:
    lines = [
        (figure.key, figure.unit, figure.report)
        for figure in FIGURES
        if figure.report is not None and figure.report.section == section
    ]
    return sorted(lines, key=lambda line: line[2].place)
