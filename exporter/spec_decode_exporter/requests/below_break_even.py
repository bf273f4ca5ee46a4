"""How many requests lose by themselves, and not by chance.

A request's A accepted tokens over its D drafts scatter about a mean of its own, which is what would come of
many more drafts. Near break-even chance alone puts half of the requests below, though all be alike. So what
differs between requests is told from what one of them scatters, as a meta-analysis does with its studies.

- Of drafts that accept m tokens of at most K, the variance is at most v = m·(K - m), as where each is taken
  whole or not at all (Bhatia and Davis, *A better bound on the variance*, American Mathematical Monthly 107,
  2000).
- For requests of one mean m = ΣA/ΣD, Q = Σ D·(A/D - m)² / v stays below the 0.99 quantile of χ² with n - 1
  degrees of freedom 99 times in 100, or more often (Cochran, *The combination of estimates from different
  experiments*, Biometrics 10, 1954).
- Where Q is above, their own means vary by τ² = v·(Q - (n - 1)) / (ΣD - ΣD²/ΣD) (DerSimonian and Laird,
  *Meta-analysis in clinical trials*, 1986).
- Then a request's own mean lies about m + w·(A/D - m) with the variance w·v/D, where w = τ²/(τ² + v/D) (Efron
  and Morris, *Data analysis using Stein's estimator and its generalizations*, JASA 70, 1975). The request
  loses if that is below c0 + c·T/D; the probabilities of this add up to the number of requests that lose.

Requests of different K have different means though their tokens be accepted alike: each K is looked at alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erf, isnan, sqrt
from typing import Final

from spec_decode_exporter.requests.informative_requests import InformativeRequests, by_tokens
from spec_decode_exporter.requests.request_speedup import LEAST_REQUESTS

_BEYOND_CHANCE: Final = 2.326
"""The 0.99 quantile of the normal distribution."""


def losing_share(requests: Sequence[InformativeRequests]) -> float:
    """Return the share of requests that lose by themselves, 0 to 1, of those of which a cost is known."""
    evaluated = [request for request in requests if not isnan(request.needed)]
    lost = sum(_losing(same) for same in by_tokens(evaluated) if len(same) >= LEAST_REQUESTS)
    return lost / len(evaluated) if evaluated else 0.0


def _losing(requests: Sequence[InformativeRequests]) -> float:
    """Return how many requests of one K lose by themselves; 0 where they may all be alike."""
    drafts = sum(each.drafts for each in requests)
    mean = sum(each.accepted_tokens for each in requests) / drafts
    variance = mean * (requests[0].tokens - mean)
    squares = sum(each.drafts * (each.accepted_tokens / each.drafts - mean) ** 2 for each in requests)
    freedom = len(requests) - 1
    if squares <= variance * _chi_square(freedom):
        return 0.0
    between = (squares - freedom * variance) / (drafts - sum(each.drafts**2 for each in requests) / drafts)
    return sum(_chance_of_losing(each, mean, variance, between) for each in requests)


def _chance_of_losing(request: InformativeRequests, mean: float, variance: float, between: float) -> float:
    """Return the probability that a request loses by itself, by its own drafts and what the others say."""
    own = variance / request.drafts
    weight = between / (between + own)
    likely = mean + weight * (request.accepted_tokens / request.drafts - mean)
    return (1 + erf((request.needed - likely) / sqrt(2 * weight * own))) / 2


def _chi_square(freedom: int) -> float:
    """Return the 0.99 quantile (Wilson and Hilferty, *The distribution of chi-square*, 1931)."""
    ninth = 2 / (9 * freedom)
    return freedom * (1 - ninth + _BEYOND_CHANCE * sqrt(ninth)) ** 3
