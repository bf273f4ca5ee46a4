"""Trade-off of a typical cost: the narrower its interval, the more cells are decided, and the more are wrong.

The intervals here are ideal: shares of the model's own costs of other cells with the same method and load. No
table of published costs can be better, so this is the limit for the sources ``typical`` and ``sizes``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.truth.cells import Cell, cells
from benchmarks.truth.tables import percent

SHARES = (0.5, 0.7, 0.8, 0.9, 0.96, 1.0)
"""Share of the costs that an interval contains."""
KNOWN_CELLS = 2500
"""Cells whose costs make the intervals, and their seed's distance from that of the tested ones."""
OTHER_SEED = 1000
MIN_KNOWN = 8
HEADS = ("model known", "costs in the interval", "decided", "false pays", "false hurts", "truth inside")


class _Kind(NamedTuple):
    """Knowledge about a cell that a table of costs can have."""

    method: str
    running: int
    is_dense: bool | None


def _kind(cell: Cell, *, model_known: bool) -> _Kind:
    return _Kind(cell.method.value, cell.running, cell.server.target.is_dense if model_known else None)


def rows(seed: int, tested: Sequence[Cell]) -> Iterator[list[str]]:
    """Yield the trade-off for models that are unknown, and for those known to be dense or not."""
    others = list(cells(seed + OTHER_SEED, KNOWN_CELLS))
    for model_known in (False, True):
        known: defaultdict[_Kind, list[float]] = defaultdict(list)
        for cell in others:
            known[_kind(cell, model_known=model_known)].append(cell.cost_at(cell.running))
        pairs = [(cell, sorted(known[_kind(cell, model_known=model_known)])) for cell in tested]
        pairs = [(cell, costs) for cell, costs in pairs if len(costs) >= MIN_KNOWN]
        for share in SHARES:
            yield ["yes" if model_known else "no", percent(share), *_shares(pairs, share)]


def _shares(pairs: Sequence[tuple[Cell, list[float]]], share: float) -> Iterator[str]:
    decided = pays = hurts = inside = 0
    for cell, costs in pairs:
        lower, upper = _speedups(cell, costs, share)
        decided += lower > 1 or upper < 1
        pays += lower > 1 and cell.truth < 0.97
        hurts += upper < 1 and cell.truth > 1.03
        inside += lower <= cell.truth <= upper
    return (percent(count / len(pairs)) for count in (decided, pays, hurts, inside))


def _speedups(cell: Cell, costs: list[float], share: float) -> tuple[float, float]:
    """Return the speed-ups at the ends of the interval of costs; the tokens per step are exact."""
    skipped = round((1 - share) / 2 * (len(costs) - 1))
    state = cell.pace
    tokens = state.coverage * state.draft_length
    low, high = costs[skipped], costs[len(costs) - 1 - skipped]
    return state.tokens_per_step / (1 + tokens * high), state.tokens_per_step / (1 + tokens * low)
