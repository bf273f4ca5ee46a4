"""Times of requests by model, target and type, for comparisons at equal traffic.

A type is a request type at a temperature. ``RequestLabels`` bounds the number of models and types.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from itertools import takewhile
from typing import Final

from spec_decode_exporter.experiments.pace import TypeTimes
from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord

CELL_SECONDS: Final = 7.5
"""A fortieth of five minutes: the cells of bounds."""
MAX_CELLS: Final = 480
"""Cells that are kept of a type: those of an hour if requests end in each."""


class RequestTypes:
    """Times of the requests of the last hour, by type."""

    def __init__(self) -> None:
        self._times: defaultdict[tuple[str, str], dict[str, _Times]] = defaultdict(dict)

    def add(self, key: GroupKey, request: RequestRecord, now: float) -> None:
        """Count a request of a group that ended ``now``, if its target and its times are known."""
        place, name = (key.model_name, request.target), f"{key.request_type} {key.temperature}"
        tokens, seconds = request.completion_tokens, request.decode_seconds
        if request.target and tokens is not None and tokens > 1 and seconds is not None:
            times = self._times[place].get(name) or self._times[place].setdefault(name, _Times())
            times.add(seconds, tokens - 1, now)

    def times(self, model_name: str, target: str, begin: float, end: float) -> Mapping[str, TypeTimes]:
        """Return the times by type of the requests that ended between two moments, to 7.5 s.

        Nothing if the interval is longer than an hour.
        """
        first, last = int(begin // CELL_SECONDS) + 1, int(end // CELL_SECONDS) + 1
        if last - first > MAX_CELLS:
            return {}
        types = self._times.get((model_name, target), {})
        found = {name: times.between(first, last) for name, times in types.items()}
        return {name: times for name, times in found.items() if times.tokens}


class _Times:
    """Times of one type by cell, oldest first."""

    def __init__(self) -> None:
        self._cells: deque[tuple[int, float, float]] = deque(maxlen=MAX_CELLS)

    def add(self, seconds: float, tokens: int, now: float) -> None:
        cell = int(now // CELL_SECONDS)
        if self._cells and self._cells[-1][0] == cell:
            _, seconds_before, tokens_before = self._cells.pop()
            seconds, tokens_now = seconds + seconds_before, tokens + tokens_before
        else:
            tokens_now = float(tokens)
        self._cells.append((cell, seconds, tokens_now))

    def between(self, first: int, last: int) -> TypeTimes:
        """Return the sums of the cells from ``first`` until before ``last``."""
        newest = takewhile(lambda each: each[0] >= first, reversed(self._cells))
        known = [(seconds, tokens) for cell, seconds, tokens in newest if cell < last]
        return TypeTimes(sum(seconds for seconds, _ in known), sum(tokens for _, tokens in known))
