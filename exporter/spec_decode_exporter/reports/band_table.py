"""Table of the setting in force and the recommended one by load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.core.number_formats import ABSENT, number_range, plain
from spec_decode_exporter.reports.parts import FigureTable

_COLUMNS: Final = ("running requests", "now", "speed", "verdict", "try", "speed")


def band_table(bands: Sequence[LoadBand]) -> FigureTable:
    """Return a row for each band of load; speeds are relative to no speculation."""
    return FigureTable(_COLUMNS, tuple(map(_row, bands)))


def _row(band: LoadBand) -> tuple[str, ...]:
    return (
        number_range(band.first, band.last),
        str(band.present_tokens),
        plain(band.present_speedup_ratio),
        ABSENT if band.verdict is None else str(band.verdict),
        str(band.tokens),
        plain(band.speedup_ratio),
    )
