"""95 % bounds of the conditional acceptance of a position: see ``ratio_bounds``."""

from __future__ import annotations

from math import sqrt

from spec_decode_exporter.analysis.statistics.ratio_bounds import cosines, grouped, ratio_estimate
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import Window


def conditional_acceptance_estimate(window: Window, position: int) -> Estimate | None:
    """Return q_i = a_i / a_{i-1}, with q_0 = a_0 / D, and its bounds; None if the window has none.

    Valid if every draft has the position. The error is at least that of independent drafts,
    √(q·(1 - q) / a_{i-1}).
    """
    increments = grouped(window)
    accepted = increments.position(position)
    reached = increments.position(position - 1) if position else increments.counter(Counter.DRAFTS)
    total = sum(reached)
    share = ratio(sum(accepted), total)
    if share is None or share > 1:
        return None
    independent = sqrt(share * (1 - share) / total)
    return ratio_estimate(accepted, reached, cosines(window), min_error=independent, lowest=0.0, highest=1.0)
