"""Figure table: ONE row for each figure of a window.

Metrics, JSON models, group sums, the page, the report of ``observe``, ``observe --against`` and
docs/reference/metrics.md take a figure from its row. The order is that of the JSON fields.
"""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.figures.figure import Figure, ScalarFigure
from spec_decode_exporter.figures.server_figures import SERVER_FIGURES
from spec_decode_exporter.figures.speculation_figures import SPECULATION_FIGURES

FIGURES: tuple[Figure, ...] = (*SPECULATION_FIGURES, *SERVER_FIGURES)
"""All figures of a window, in the order of the JSON fields."""


_SCALARS: Final = {figure.key: figure for figure in FIGURES if isinstance(figure, ScalarFigure)}


def scalar(key: str) -> ScalarFigure:
    """Return the scalar figure with this key."""
    return _SCALARS[key]


def shown() -> tuple[Figure, ...]:
    """Return the figures with a metric and a JSON field."""
    return tuple(figure for figure in FIGURES if figure.group is not None)


def measured() -> tuple[ScalarFigure, ...]:
    """Return the figures that references measure."""
    return tuple(
        figure for figure in FIGURES if isinstance(figure, ScalarFigure) and figure.comparison is not None
    )
