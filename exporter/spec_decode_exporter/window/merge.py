"""Merge the windows of several engines into one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import zip_longest
from typing import Final

from spec_decode_exporter.scrape.page.engine_table import Gauge
from spec_decode_exporter.window.answer_lengths import AnswerLengths
from spec_decode_exporter.window.ledger import MEAN_GAUGES, Increments, Window

STEPS: Final = 40
"""Maximum increments of a merged window: confidence bounds use no more."""


def merge_windows(windows: Sequence[Window]) -> Window:
    """Return the sum of one or more windows of equal length and end.

    A value that one window lacks is absent from the sum. Requests add up; cache usage is averaged. Increments
    are added up by their start times, so that a simultaneous change of all engines counts as one event, not
    as several independent ones.
    """
    if len(windows) == 1:
        return windows[0]
    return Window(
        length=max(window.length for window in windows),
        seconds=max(window.seconds for window in windows),
        polls=max(window.polls for window in windows),
        counters=tuple(map(_sum, zip(*(window.counters for window in windows), strict=True))),
        positions=tuple(map(sum, zip_longest(*(window.positions for window in windows), fillvalue=0))),
        gauges=tuple(_gauge(gauge, windows) for gauge in MEAN_GAUGES),
        increments=reduce(Increments.plus, _side_by_side([window.increments for window in windows])),
        answers=reduce(AnswerLengths.plus, [window.answers for window in windows]),
    )


def sum_of_windows(windows: Sequence[Window]) -> Window:
    """Return the sum of one or more windows of an engine at different times, for ratios of sums.

    It has neither increments nor gauges, so it has no bounds and no load.
    """
    return Window(
        length=sum(window.length for window in windows),
        seconds=sum(window.seconds for window in windows),
        polls=sum(window.polls for window in windows),
        counters=tuple(map(_sum, zip(*(window.counters for window in windows), strict=True))),
        positions=tuple(map(sum, zip_longest(*(window.positions for window in windows), fillvalue=0))),
        gauges=(None,) * len(MEAN_GAUGES),
        answers=reduce(AnswerLengths.plus, [window.answers for window in windows]),
    )


def _sum(counts: tuple[int | None, ...]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _gauge(gauge: Gauge, windows: Sequence[Window]) -> float | None:
    means = [window.gauges[MEAN_GAUGES.index(gauge)] for window in windows]
    known = [mean for mean in means if mean is not None]
    if len(known) < len(means):
        return None
    return sum(known) / (len(known) if gauge is Gauge.KV_CACHE_USAGE else 1)


def _side_by_side(engines: Sequence[Increments]) -> list[Increments]:
    """Return the increments of each engine, added up within common intervals of time."""
    begins = [begin for engine in engines for begin in engine.begins]
    steps = min(STEPS, max(map(len, engines)))
    if not steps:
        return list(engines)
    width = (max(begins) - min(begins)) / steps
    edges = [min(begins) + width * step for step in range(steps)]
    return [engine.between([*engine.places(edges), len(engine)]) for engine in engines]
