"""Draft tokens by load: the fewest steps that lose little, with boundaries where errors cost least.

At n running requests with the cost c(n), S_n(k) is the speed-up of k draft tokens (``depth.speedups_alone``).
Acceptance is taken as the same at every load. Loads are compared in cells: from 1, 2, 3, 4, 6, 8, 12, …
running requests, two for each doubling. Finer ones would claim more than the cost by load shows, and would
move with every minute.

- A number of tokens *suffices* in a cell if S_n(k) is within a tolerance of the best at the guessed cost.
- The schedule has the fewest steps of sufficient numbers: a step that gains less everywhere is merged.
- Of those, it has the least sum of regrets. The regret of k in a cell is the largest share of the best
  speed-up that it loses at the lowest, the guessed or the highest cost. So a boundary lies where its two
  numbers are about equal, and where it costs least if the cost is not as guessed. Load that oscillates about
  it then changes K between two numbers that are about as fast.
- A setting in force that suffices in every cell stays.

A band's verdict is that of the draft tokens in force, by their mean speed-up over its cells. Its bounds
contain the interval of the cost at each load and, in proportion, the sampling error of the acceptance length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from statistics import fmean
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.cost import CostKnowledge, cost_by_curve
from spec_decode_exporter.analysis.cost_curve import CostCurve
from spec_decode_exporter.analysis.depth import speedups_alone
from spec_decode_exporter.analysis.speedup import SpeedupRange
from spec_decode_exporter.analysis.statistics.ratio_bounds import acceptance_length_estimate
from spec_decode_exporter.analysis.verdict import Verdict, speedup_verdict
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.window.ledger import Window

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
    """Recommended draft tokens."""
    speedup: float
    """Their mean speed-up over the cells of the band."""
    regret: float
    """Largest share of the best speed-up that they lose in a cell, over the possible costs."""
    present_tokens: int
    """Draft tokens by the setting in force."""
    present_speedup: float
    verdict: Verdict | None
    """Verdict on the draft tokens in force, decode only; None if they are 0."""
    is_improvable: bool
    """True if the recommended tokens are faster by more than ``policy.depth.tolerance``."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """Draft tokens that are possible, and those in force."""

    tokens: int
    """K in force."""
    most: int
    """Maximum K to compare."""
    schedule: BatchSchedule
    """Schedule in force."""
    searches: bool
    """True if the method drafts only what it finds."""

    def at(self, load: int) -> int:
        """Return the draft tokens in force at a load; a schedule never exceeds K."""
        planned = self.schedule.at(load)
        return self.tokens if planned is None else min(planned, self.tokens)


class _Cell(NamedTuple):
    """Loads that are compared as one."""

    first: int
    last: int
    speedups: Sequence[float]
    """S(0) … S(most) at the guessed cost."""
    at_lowest_cost: Sequence[float]
    at_highest_cost: Sequence[float]
    regrets: Sequence[float]
    """Largest share of the best speed-up that each number loses, over the possible costs."""
    present: int
    """Draft tokens in force."""

    def suffices(self, tokens: int, tolerance: float) -> bool:
        return self.speedups[tokens] >= (1 - tolerance) * max(self.speedups)


def load_bands(
    window: Window, curve: CostCurve, known: CostKnowledge, drafting: Drafting, policy: Policy
) -> tuple[LoadBand, ...]:
    """Return the bands of load from 1 to the highest load with a known cost, ascending and without gaps.

    Below the lowest known load its cost counts. Empty without drafts or positions.
    """
    cells = list(_cells(window, curve, known, drafting))
    if not cells:
        return ()
    tolerance = policy.depth.tolerance
    chosen: Sequence[int] = [cell.present for cell in cells]
    if not all(cell.suffices(cell.present, tolerance) for cell in cells):
        chosen = _chosen(cells, tolerance)
    return tuple(_band(joined, tokens, window, policy) for joined, tokens in _joined(cells, chosen))


def schedule_of(bands: Sequence[LoadBand]) -> BatchSchedule:
    """Return the recommended schedule; without ranges if all bands have the same number of tokens."""
    steps = [next(same) for _, same in groupby(bands, key=attrgetter("tokens"))]
    if len(steps) < 2:  # noqa: PLR2004  one number for all loads
        return NO_SCHEDULE
    return BatchSchedule(tuple(band.first for band in steps), tuple(band.tokens for band in steps))


def _cells(window: Window, curve: CostCurve, known: CostKnowledge, drafting: Drafting) -> Iterator[_Cell]:
    highest = max(int(curve.points[-1].running_requests), 1)
    firsts = sorted({*_CELLS, *drafting.schedule.firsts})
    ends = [*(first for first in firsts if first <= highest), highest + 1]
    for first, end in pairwise(ends):
        cost = cost_by_curve(curve, (first + end - 1) / 2, known)
        at_costs = [
            speedups_alone(window, each, drafting.most, searches=drafting.searches)
            for each in (cost, cost.low, cost.high)
        ]
        if not at_costs[0]:
            return
        regrets = [max(losses) for losses in zip(*map(_losses, at_costs), strict=True)]
        guess, low, high = at_costs
        yield _Cell(first, end - 1, guess, low, high, regrets, min(drafting.at(first), len(regrets) - 1))


def _losses(speedups: Sequence[float]) -> list[float]:
    best = max(speedups)
    return [1 - speedup / best for speedup in speedups]


class _Path(NamedTuple):
    """Numbers of tokens of the cells so far; a lesser path is better."""

    steps: int
    regret: float
    tokens: tuple[int, ...]


def _chosen(cells: Sequence[_Cell], tolerance: float) -> Sequence[int]:
    """Return the tokens of each cell, by dynamic programming over the last cell's tokens."""
    paths: dict[int, _Path] = {}
    for cell in cells:
        best = min(paths.values(), default=_Path(0, 0.0, ()))
        paths = {
            tokens: _extended(paths.get(tokens), best, tokens, cell.regrets[tokens])
            for tokens in range(len(cell.speedups))
            if cell.suffices(tokens, tolerance)
        }
    return min(paths.values()).tokens


def _extended(same: _Path | None, best: _Path, tokens: int, regret: float) -> _Path:
    """Return the best path that continues with ``tokens``: without a step from ``same``, or with one."""
    stepped = best._replace(steps=best.steps + 1)
    before = stepped if same is None else min(same, stepped)
    return _Path(before.steps, before.regret + regret, (*before.tokens, tokens))


def _joined(cells: Sequence[_Cell], chosen: Sequence[int]) -> Iterator[tuple[Sequence[_Cell], int]]:
    """Yield the cells of each band with its tokens: joined until the chosen or the present ones change."""
    pairs = zip(cells, chosen, strict=True)
    for (tokens, _), same in groupby(pairs, key=lambda pair: (pair[1], pair[0].present)):
        yield [cell for cell, _ in same], tokens


def _band(cells: Sequence[_Cell], tokens: int, window: Window, policy: Policy) -> LoadBand:
    present = cells[0].present
    speedup = fmean(cell.speedups[tokens] for cell in cells)
    present_speedup = fmean(cell.speedups[present] for cell in cells)
    return LoadBand(
        cells[0].first,
        cells[-1].last,
        tokens,
        speedup,
        max(cell.regrets[tokens] for cell in cells),
        present,
        present_speedup,
        speedup_verdict(_range(cells, window, policy), policy.speedup) if present else None,
        present_speedup < (1 - policy.depth.tolerance) * speedup,
    )


def _range(cells: Sequence[_Cell], window: Window, policy: Policy) -> SpeedupRange:
    """Return the speed-up of the draft tokens in force over the cells, at the possible costs."""
    present = cells[0].present
    value = fmean(cell.speedups[present] for cell in cells)
    low = fmean(cell.at_highest_cost[present] for cell in cells)
    high = fmean(cell.at_lowest_cost[present] for cell in cells)
    length = acceptance_length_estimate(window)
    if length is None:
        lower, upper = 1 - policy.max_half_width, 1 + policy.max_half_width
    else:
        lower, upper = length.lower / length.value, length.upper / length.value
    return SpeedupRange(
        Estimate(value, lower * low, upper * high, 0.0), low, high, is_bounded=length is not None
    )
