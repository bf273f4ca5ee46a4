"""Crossover load: the running requests up to which speculation pays, by a cost at several loads."""

from __future__ import annotations

from itertools import pairwise

from spec_decode_exporter.analysis.cost_curve import CostCurve
from spec_decode_exporter.figures.decode_work import DecodeWork, DraftCost, work
from spec_decode_exporter.window.ledger import Window


def crossover_running_requests(window: Window, curve: CostCurve) -> float | None:
    """Return the load, in running requests, above which speculation does not pay.

    Acceptance is assumed to be the same at every load, and the gain is interpolated between known loads. None
    if speculation pays at all known loads, or at none.
    """
    decoded = work(window)
    if decoded is None:
        return None
    for begin, end in pairwise(curve.points):
        low, high = begin.running_requests, end.running_requests
        gain, loss = _gain(decoded, curve.guess(low)), -_gain(decoded, curve.guess(high))
        if gain >= 0 and loss > 0:
            return low + (high - low) * gain / (gain + loss)
    return None


def _gain(decoded: DecodeWork, cost: DraftCost) -> float:
    """Return the time that speculation saved, in plain decode steps; negative if it cost time."""
    return decoded.tokens - decoded.plain_steps(cost)
