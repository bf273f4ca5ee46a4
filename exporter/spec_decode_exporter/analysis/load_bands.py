"""Draft tokens by load: the present number, unless another is better by a tolerance.

At n running requests with the cost c(n), S_n(k) is the speed-up of k draft tokens (``speedups_alone``).
Acceptance is taken as the same at every load. Loads are compared in cells: from 1, 2, 3, 4, 6, 8, 12, …
running requests, two for each doubling. Finer ones would claim more than the cost by load shows, and would
move with every minute.

A number of tokens *suffices* in a cell if S_n(k) is within the tolerance of the best at the guessed cost. The
present number stays where it suffices; else that of the cell below, else the best counts. The *regret* is
the largest share of the best speed-up that a number loses at the lowest, the guessed or the highest cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from statistics import fmean
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule
from spec_decode_exporter.costs.cost import CostByLoad

_CELLS: Final = (1, *sorted({2**power for power in range(1, 17)} | {3 * 2**power for power in range(16)}))
"""First load of each cell."""


@dataclass(frozen=True, slots=True)
class LoadBand:
    """Loads with one recommended and one present number of draft tokens."""

    first: int
    """Fewest running requests."""
    last: int
    """Most running requests."""
    tokens: int
    """Recommended draft tokens; 0 is none."""
    speedup_ratio: float
    """Their mean speed relative to no speculation over the loads."""
    regret_ratio: float
    """Largest share of the best speed that the recommended tokens lose at any possible cost."""
    present_tokens: int
    """Draft tokens by the setting in force."""
    present_speedup_ratio: float
    """Their mean speed over the loads."""


class _Cell(NamedTuple):
    """Loads that are compared as one, with the speed-ups S(0) … S(most) there."""

    first: int
    last: int
    present: int  # draft tokens in force
    guess: Sequence[float]
    regrets: Sequence[float]
    """Largest share of the best speed-up that each number of tokens loses, over the possible costs."""


def load_bands(its: WindowEvaluation, curve: CostByLoad, most: int) -> tuple[LoadBand, ...]:
    """Return the bands of load from 1 to the highest load with a known cost, ascending and without gaps.

    Below the lowest known load its cost counts. ``most`` limits the draft tokens. Empty without drafts or
    positions.
    """
    cells, tolerance = list(_cells(its, curve, most)), its.known.policy.depth.tolerance
    if not cells:
        return ()
    chosen = list(_kept(cells, tolerance))
    # A band ends where the chosen or the present number changes.
    pairs = groupby(zip(cells, chosen, strict=True), key=lambda pair: (pair[1], pair[0].present))
    return tuple(_band([cell for cell, _ in same], tokens) for (tokens, _), same in pairs)


def schedule_of(bands: Sequence[LoadBand]) -> BatchSchedule:
    """Return the recommended schedule; without ranges if all bands have the same number of tokens."""
    steps = [next(same) for _, same in groupby(bands, key=attrgetter("tokens"))]
    if len(steps) < 2:  # noqa: PLR2004  one number for all loads
        return NO_SCHEDULE
    return BatchSchedule(tuple(band.first for band in steps), tuple(band.tokens for band in steps))


def _cells(its: WindowEvaluation, curve: CostByLoad, most: int) -> Iterator[_Cell]:
    depths, known, schedule = its.depths, its.known, its.known.speculation.schedule
    if depths is None:
        return
    most = min(most, len(depths))
    highest = max(int(curve.points[-1].running_requests), 1)
    firsts = sorted({*_CELLS, *schedule.firsts})
    for first, end in pairwise([*(first for first in firsts if first <= highest), highest + 1]):
        cost = known.cost.by_curve(curve, (first + end - 1) / 2)
        guess, *others = (
            depths.speedups_alone(price, most, searches=known.drafts_what_it_finds)
            for price in (cost.guess, cost.low, cost.high)
        )
        planned = schedule.at(first)
        present = depths.known if planned is None else min(planned, depths.known)
        regrets = list(map(max, _losses(guess), *map(_losses, others)))
        yield _Cell(first, end - 1, min(present, most), guess, regrets)


def _losses(speedups: Sequence[float]) -> list[float]:
    best = max(speedups)
    return [1 - speedup / best for speedup in speedups]


def _kept(cells: Sequence[_Cell], tolerance: float) -> Iterator[int]:
    """Yield the tokens of each cell: the present ones or those of the cell below, if they suffice."""
    below = cells[0].present
    for cell in cells:
        best = max(cell.guess)
        sufficient = (
            tokens for tokens in (cell.present, below) if cell.guess[tokens] >= (1 - tolerance) * best
        )
        below = next(sufficient, cell.guess.index(best))
        yield below


def _band(cells: Sequence[_Cell], tokens: int) -> LoadBand:
    first, last, present = cells[0].first, cells[-1].last, cells[0].present
    speedup, now = (fmean(cell.guess[number] for cell in cells) for number in (tokens, present))
    regret = max(cell.regrets[tokens] for cell in cells)
    return LoadBand(first, last, tokens, speedup, regret, present, now)
