"""Search for periods without drafts: two counters, read every few minutes, say where to look closely.

Most of a history has drafts, and a baseline needs a day of samples at most. So the search reads one of some
hundred samples; all samples of the period that it finds decide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spec_decode_exporter.history.query_api import SampledSeries
from spec_decode_exporter.scrape.engines import MEANINGS, MODEL_LABEL, Counter

Reading = tuple[float, float | None, float | None]
"""Unix time, generated tokens and drafts of a model; None where the target has no such counter."""


@dataclass(frozen=True, slots=True)
class FoundPeriod:
    """Time in which a target may have served a model without speculation."""

    begin: float
    """Unix time."""
    end: float
    ended: bool
    """Drafts ended it."""


class ActivityReadings:
    """Readings of the two counters of each model, summed over its engines."""

    def __init__(self) -> None:
        self._sums: defaultdict[str, dict[float, dict[Counter, float]]] = defaultdict(dict)

    def add(self, series: Iterable[SampledSeries]) -> None:
        """Add a page of readings."""
        for each in series:
            meaning = MEANINGS.get(each.labels.get("__name__", "").encode())
            if meaning is None or not isinstance(meaning.quantity, Counter):
                continue
            times = self._sums[each.labels.get(MODEL_LABEL, "")]
            for time, value in zip(each.times, each.values, strict=True):
                sums = times.setdefault(time, {})
                sums[meaning.quantity] = sums.get(meaning.quantity, 0.0) + value

    def by_model(self) -> Mapping[str, Sequence[Reading]]:
        """Return the readings of each model, oldest first."""
        return {
            model: [
                (time, sums.get(Counter.GENERATION_TOKENS), sums.get(Counter.DRAFTS))
                for time, sums in sorted(times.items())
            ]
            for model, times in self._sums.items()
        }


def plain_periods(readings: Sequence[Reading], now: float) -> list[FoundPeriod]:
    """Return the periods without drafts, newest first, each rounded up to whole intervals of readings.

    In an interval a model may have worked without speculation if its tokens changed, and if it had no drafts
    yet at one end: a server without speculation has no such counter, or one at 0. Drafts end a period; idle
    time does not. One that lasts ends ``now`` (Unix time).
    """
    periods: list[FoundPeriod] = []
    begin: float | None = None
    end = 0.0
    for earlier, later in pairwise(readings):
        if _may_be_plain(earlier, later):
            begin, end = earlier[0] if begin is None else begin, later[0]
        if begin is not None and later[2] and later[2] != earlier[2]:
            periods.append(FoundPeriod(begin, end, ended=True))
            begin = None
    if begin is not None:
        periods.append(FoundPeriod(begin, now, ended=False))
    return periods[::-1]


def _may_be_plain(earlier: Reading, later: Reading) -> bool:
    has_worked = bool(later[1]) and later[1] != earlier[1]
    return has_worked and not (earlier[2] and later[2])
