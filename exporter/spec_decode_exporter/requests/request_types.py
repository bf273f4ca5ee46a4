"""Times of requests by model, target and type, for comparisons of arms at equal traffic.

A type is a request type at a temperature. The store bounds the number of models and types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spec_decode_exporter.experiments.pace import TypeTimes
from spec_decode_exporter.requests.cells import CELL_SECONDS
from spec_decode_exporter.requests.findings import GroupKey
from spec_decode_exporter.requests.record import RequestRecord

MAX_CELLS: Final = int(3600 / CELL_SECONDS)
"""Cells that are kept of a type of requests: those of an hour if requests end in each."""


class RequestTypes:
    """Times of the requests of the last hour, by model, target and type."""

    def __init__(self) -> None:
        self._times: dict[tuple[str, str], dict[str, dict[int, TypeTimes]]] = {}
        self._released = 0

    def add(self, key: GroupKey, request: RequestRecord, now: float) -> None:
        """Count a request of a group that ended ``now``, if its target and its times are known."""
        answer, seconds = request.completion_tokens, request.decode_seconds
        if not request.target or answer is None or answer <= 1 or seconds is None:
            return
        cell = int(now // CELL_SECONDS)
        if cell - self._released >= MAX_CELLS:
            self._release(cell)
        types = self._times.setdefault((key.model_name, request.target), {})
        cells = types.setdefault(f"{key.request_type} {key.temperature}", {})
        before = cells.get(cell, TypeTimes(0.0, 0.0))
        cells[cell] = TypeTimes(before.seconds + seconds, before.tokens + answer - 1)
        if len(cells) > MAX_CELLS:
            del cells[next(iter(cells))]

    def _release(self, cell: int) -> None:
        """Release types without requests in the last hour: names that the store admits change."""
        self._released = cell
        kept = {
            place: {name: cells for name, cells in types.items() if next(reversed(cells)) > cell - MAX_CELLS}
            for place, types in self._times.items()
        }
        self._times = {place: types for place, types in kept.items() if types}

    def times(self, model_name: str, target: str, begin: float, end: float) -> Mapping[str, TypeTimes]:
        """Return the times by type of the requests that ended between two moments, to a cell.

        Nothing if the interval is longer than an hour.
        """
        first, last = int(begin // CELL_SECONDS) + 1, int(end // CELL_SECONDS) + 1
        found = {}
        for name, cells in self._times.get((model_name, target), {}).items():
            parts = [times for cell, times in cells.items() if first <= cell < last <= first + MAX_CELLS]
            if parts:
                found[name] = TypeTimes(*map(sum, zip(*parts, strict=True)))
        return found
