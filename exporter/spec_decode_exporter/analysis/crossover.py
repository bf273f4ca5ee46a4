"""Up to which load speculation pays, where its cost is known at several."""

from __future__ import annotations

from itertools import pairwise

from spec_decode_exporter.analysis.cost import Cost, CostCurve
from spec_decode_exporter.figures.decode_work import DecodeWork, work
from spec_decode_exporter.window.ledger import Window


def crossover_running_requests(window: Window, curve: CostCurve) -> float | None:
    """Return the load, in running requests, above which speculation costs more than it gives.

    What is accepted is taken as the same at every load. Straight lines between the known loads; None where
    speculation pays at all of them, or at none: the load is then outside of what is known.
    """
    done = work(window)
    if done is None:
        return None
    for begin, end in pairwise(curve.loads):
        low, high = begin.running_requests, end.running_requests
        gain, loss = _gain(done, curve.at(low)), -_gain(done, curve.at(high))
        if gain >= 0 and loss > 0:
            return low + (high - low) * gain / (gain + loss)
    return None


def _gain(done: DecodeWork, cost: Cost) -> float:
    """Return how many plain decode steps' time speculation saved; negative if it cost some."""
    return done.tokens - done.plain_steps(cost)
