"""What all requests of one model say, and what their mean hides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from spec_decode_exporter.requests.acceptance_histogram import acceptance_histogram
from spec_decode_exporter.requests.below_break_even import losing_share
from spec_decode_exporter.requests.informative_requests import InformativeRequests, by_tokens, picked
from spec_decode_exporter.requests.mixture import modes
from spec_decode_exporter.requests.request_advice import advice
from spec_decode_exporter.requests.request_findings import GroupKey, ModelFindings, Modes, Summary
from spec_decode_exporter.requests.request_summary import summary
from spec_decode_exporter.requests.request_sums import PaySums, Sums

LOSERS_SHARE: Final = 0.1
"""Fewer than these are what any mean hides."""


def model_findings(model_name: str, sums: Sums, groups: Mapping[GroupKey, Sums]) -> ModelFindings:
    """Return what the requests of a model say, of which ``groups`` are all."""
    said, telling = summary(sums), picked(sums.telling)
    heaps, hidden = _heaps(telling), hides_losers(sums.pay, said, telling)
    return ModelFindings(
        model_name,
        said,
        heaps,
        mixed=heaps is not None or hidden,
        advice=advice(said, heaps, groups, hidden=hidden),
        acceptance_counts=acceptance_histogram(sums.ratios),
    )


def hides_losers(pay: PaySums, said: Summary, telling: Sequence[InformativeRequests]) -> bool:
    """Return whether more than a tenth of the requests lose, beyond chance, while all together gain.

    That is p10 below break-even and the mean above. By a usual cost alone nobody is said to lose.
    """
    if pay.guessed or said.speedup_ratio is None or said.speedup_ratio.value <= 1:
        return False
    return losing_share(telling) > LOSERS_SHARE


def _heaps(requests: Sequence[InformativeRequests]) -> Modes | None:
    """Return the two heaps of requests of one number of draft tokens, the commonest that has any."""
    for same in by_tokens(requests):
        found = modes([(each.accepted_tokens / each.draft_tokens, each.drafts) for each in same])
        if found is not None:
            return found
    return None
