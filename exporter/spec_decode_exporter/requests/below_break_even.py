"""Share of requests that speculation makes slower, corrected for chance.

A request's A accepted tokens over its D drafts scatter about its own mean, the limit for many drafts. Near
break-even, chance alone puts half of equal requests below it. So the variance between requests is separated
from the variance within each, as a meta-analysis does with its studies.

- A draft that accepts m of at most K tokens on average has at most the variance v = m·(K - m). This is the
  case where each draft is accepted entirely or not at all (Bhatia and Davis, *A better bound on the
  variance*, American Mathematical Monthly 107, 2000).
- For requests with one mean m = ΣA/ΣD, Q = Σ D·(A/D - m)² / v is below the 0.99 quantile of χ² with n - 1
  degrees of freedom in at least 99 % of samples (Cochran, *The combination of estimates from different
  experiments*, Biometrics 10, 1954).
- If Q is above, the means of requests have the variance τ² = v·(Q - (n - 1)) / (ΣD - ΣD²/ΣD) (DerSimonian and
  Laird, *Meta-analysis in clinical trials*, 1986).
- Then a request's own mean is about m + w·(A/D - m) with the variance w·v/D, where w = τ²/(τ² + v/D) (Efron
  and Morris, *Data analysis using Stein's estimator and its generalizations*, JASA 70, 1975). The request is
  below break-even if its mean is below c0 + c·T/D; steps without drafts may need more. The sum of these
  probabilities is the number of such requests.

Requests of different K have different means even at equal acceptance: each K is evaluated separately.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import erf, isnan, sqrt
from typing import Final, NamedTuple

from spec_decode_exporter.requests.ratio_estimate import MIN_REQUESTS

MIN_TOKENS: Final = 32
"""Tokens of an answer after the first; the acceptance of a shorter request is mostly chance."""
MAX_SAMPLE: Final = 1000
"""Requests in an even sample: it gives shares within 0.03."""
_Z99: Final = 2.326
"""The 0.99 quantile of the normal distribution."""

InformativeRow = tuple[int, int, int, int, float]
"""The fields of ``InformativeRequest``: objects for all requests take too long."""


class InformativeRequest(NamedTuple):
    """A request of at least ``MIN_TOKENS``."""

    tokens: int
    """K."""
    drafts: int
    draft_tokens: int
    accepted_tokens: int
    break_even: float
    """Accepted tokens per draft at break-even, c0 + c·T/D if all steps draft; NaN if the cost is unknown."""


def even_sample(rows: Sequence[InformativeRow]) -> list[InformativeRequest]:
    """Return at most ``MAX_SAMPLE`` requests, at even distances."""
    size = min(len(rows), MAX_SAMPLE)
    return [InformativeRequest._make(rows[index * len(rows) // size]) for index in range(size)]


def by_tokens(requests: Iterable[InformativeRequest]) -> list[list[InformativeRequest]]:
    """Return the requests of each K, the most frequent K first: acceptance decreases with K."""
    groups: dict[int, list[InformativeRequest]] = {}
    for request in requests:
        groups.setdefault(request.tokens, []).append(request)
    return sorted(groups.values(), key=len, reverse=True)


def share_below_break_even(requests: Sequence[InformativeRequest]) -> float:
    """Return the share of requests below break-even, 0 to 1, among those with a known cost."""
    evaluated = [request for request in requests if not isnan(request.break_even)]
    below = sum(_below(group) for group in by_tokens(evaluated) if len(group) >= MIN_REQUESTS)
    return below / len(evaluated) if evaluated else 0.0


def _below(requests: Sequence[InformativeRequest]) -> float:
    """Return the expected number of requests of one K below break-even; 0 if they may be equal."""
    drafts = sum(each.drafts for each in requests)
    mean = sum(each.accepted_tokens for each in requests) / drafts
    variance = mean * (requests[0].tokens - mean)
    squares = sum(each.drafts * (each.accepted_tokens / each.drafts - mean) ** 2 for each in requests)
    freedom = len(requests) - 1
    if squares <= variance * _chi_square(freedom):
        return 0.0
    between = (squares - freedom * variance) / (drafts - sum(each.drafts**2 for each in requests) / drafts)
    return sum(_probability_below(each, mean, variance, between) for each in requests)


def _probability_below(request: InformativeRequest, mean: float, variance: float, between: float) -> float:
    """Return the probability that a request's own mean is below break-even."""
    own = variance / request.drafts
    weight = between / (between + own)
    posterior = mean + weight * (request.accepted_tokens / request.drafts - mean)
    return (1 + erf((request.break_even - posterior) / sqrt(2 * weight * own))) / 2


def _chi_square(freedom: int) -> float:
    """Return the 0.99 quantile (Wilson and Hilferty, *The distribution of chi-square*, 1931)."""
    ninth = 2 / (9 * freedom)
    return freedom * (1 - ninth + _Z99 * sqrt(ninth)) ** 3
