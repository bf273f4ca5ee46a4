"""What all requests of one model say, and what their mean hides."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.requests.advice import advice
from exporter.requests.findings import GroupKey, ModelFindings, Summary
from exporter.requests.modes import modes
from exporter.requests.pay import LEAST_REQUESTS
from exporter.requests.summary import summary
from exporter.requests.sums import PaySums, Sums
from exporter.requests.twentieths import twentieths


def model_findings(model_name: str, sums: Sums, groups: Mapping[GroupKey, Sums]) -> ModelFindings:
    """Return what the requests of a model say, of which ``groups`` are all."""
    said, heaps = summary(sums), modes(sums.telling)
    hidden = hides_losers(sums.pay, said)
    return ModelFindings(
        model_name,
        said,
        heaps,
        mixed=heaps is not None or hidden,
        advice=advice(said, heaps, groups, hidden=hidden),
        acceptance_counts=twentieths(sums.ratios),
    )


def hides_losers(pay: PaySums, said: Summary) -> bool:
    """Return whether more than a tenth of the requests lose while all together gain.

    That is p10 below break-even and the mean above. Of short requests, chance alone is below for a tenth, so
    that only those count which say enough of themselves. By a usual cost alone nobody is said to lose.
    """
    if pay.guessed or pay.telling < LEAST_REQUESTS or said.speedup_ratio is None:
        return False
    return said.speedup_ratio.value > 1 and 10 * pay.telling_below > pay.telling
