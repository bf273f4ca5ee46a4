"""Findings about requests: by group, by model, by user, by prompt length and since the start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import erf, hypot, isnan, sqrt
from typing import Final, NamedTuple

from spec_decode_exporter.figures.student_t import degrees_of_sum, t_quantile
from spec_decode_exporter.requests.cells import MIN_REQUESTS, Sums
from spec_decode_exporter.requests.mixture import Modes, modes
from spec_decode_exporter.requests.record import Refusal, RequestSource

OTHER: Final = "other"
"""The label of values beyond the cardinality limits."""
UNKNOWN: Final = "unknown"
"""The label of a request type or a temperature that the sender omits."""
REMAINING: Final = 0.85
"""Share of the acceptance length that must remain with long prompts, as for a drop."""
MIN_TOKENS: Final = 32
"""Tokens of an answer after the first; the acceptance of a shorter request is mostly chance."""
MAX_SAMPLE: Final = 1000
"""Requests in an even sample: it gives shares within 0.03."""
MIN_HIDDEN_SHARE: Final = 0.1
"""Any mean hides a smaller share of slow requests."""
_Z99: Final = 2.326
"""The 0.99 quantile of the normal distribution."""


class GroupKey(NamedTuple):
    """Requests that are counted together; the fields are the metrics' labels."""

    model_name: str
    request_type: str
    temperature: str
    """The bucket's label: ``0``, ``0-0.3``, ``0.3-0.7``, ``0.7-1``, ``>1``, ``unknown``."""


class GroupFindings(NamedTuple):
    """One group in one window."""

    key: GroupKey
    summary: Sums


class ModelFindings(NamedTuple):
    """All requests of one model in one window."""

    model_name: str
    summary: Sums
    modes: Modes | None
    """None unless the requests are bimodal."""
    mixed: bool
    """Mixed-workload finding: bimodal, or p10 significantly below break-even while the mean is above."""
    advice: Sequence[str]
    """Plain sentences, the most useful first; untrusted names in them are not yet escaped."""


class WindowFindings(NamedTuple):
    """One window."""

    seconds: float
    partial: bool
    """The exporter is younger than the window, or took no requests in a part of it."""
    groups: Sequence[GroupFindings] = ()
    models: Sequence[ModelFindings] = ()
    covered_seconds: float = 0.0
    """Time whose requests are complete: shorter than a partial window."""


class UserFindings(NamedTuple):
    """Requests of one user, as a hash, in the longest window."""

    user: str
    model_name: str
    summary: Sums


class PromptBucket(NamedTuple):
    """Requests of one model with about the same length of the prompt, in the longest window."""

    prompt_tokens: str
    """The bucket's label: ``0-1000``, ``1000-4000``, …, ``>64000``."""
    summary: Sums


class PromptFindings(NamedTuple):
    """Requests of one model by the length of the prompt, in the longest window."""

    model_name: str
    buckets: Sequence[PromptBucket]
    """Ascending; without empty ones."""
    falls: bool
    """True if the acceptance length is significantly lower (95 %) with the longest prompts."""


@dataclass(frozen=True, slots=True)
class RequestFindings:
    """All findings about requests at one moment."""

    enabled: bool = False
    windows: Mapping[str, WindowFindings] = field(default_factory=dict)
    """By the ``window`` label."""
    since_start: Mapping[GroupKey, Sums] = field(default_factory=dict)
    users: Sequence[UserFindings] = ()
    prompts: Sequence[PromptFindings] = ()
    """Models whose senders report prompt tokens, in the longest window."""
    sources: Mapping[RequestSource, int] = field(default_factory=dict)
    """Requests counted since the start, by source."""
    refused: Mapping[Refusal, int] = field(default_factory=dict)
    folded: Mapping[str, int] = field(default_factory=dict)
    """Requests counted as ``other`` since the start, by the labels of ``store.FOLDED``."""

    @property
    def taken(self) -> int:
        """Requests counted since the start."""
        return sum(self.sources.values())


def falls_with_prompt(buckets: Iterable[PromptBucket]) -> bool:
    """Return whether the acceptance length is significantly lower (95 %) with the longest prompts.

    Drafters are trained on contexts of a few thousand tokens: EAGLE-3 gave 2.30 tokens a step at 2,000 tokens
    and 1.08 at 20,000 (speculators, pull request 684). The shortest and the longest bucket with enough
    requests are compared: one comparison, and no choice among several. With L_s and L_l their acceptance
    lengths, the lower 95 % bound of 0.85·L_s - L_l must be above 0, with degrees of freedom by Welch and
    Satterthwaite: windows are evaluated again and again, so a difference of 0 must rarely pass.
    """
    compared = [sums.acceptance_length for _, sums in buckets if sums.acceptance_length is not None]
    if len(compared) < 2:  # noqa: PLR2004  a short and a long one
        return False
    short, long = compared[0], compared[-1]
    errors = REMAINING * short.standard_error, long.standard_error
    degrees = degrees_of_sum([error**2 for error in errors], [short.degrees, long.degrees])
    return REMAINING * short.value - long.value > t_quantile(degrees) * hypot(*errors)


class LongRequest(NamedTuple):
    """A request with drafts and an answer of at least ``MIN_TOKENS``."""

    taken_at: float
    model_name: str
    tokens: int
    """K."""
    drafts: int
    draft_tokens: int
    accepted_tokens: int
    break_even: float
    """Accepted tokens per draft at break-even, c0 + c·T/D if all steps draft; NaN if the cost is unknown."""


def by_tokens(requests: Iterable[LongRequest]) -> list[list[LongRequest]]:
    """Return the requests of each K, the most frequent K first: acceptance decreases with K."""
    groups: dict[int, list[LongRequest]] = {}
    for request in requests:
        groups.setdefault(request.tokens, []).append(request)
    return sorted(groups.values(), key=len, reverse=True)


def modes_of(requests: Iterable[LongRequest]) -> Modes | None:
    """Return the two modes of requests with the same K: the most frequent K that is bimodal."""
    groups = (
        [(each.accepted_tokens / each.draft_tokens, each.drafts) for each in group]
        for group in by_tokens(requests)
    )
    return next((found for group in groups if (found := modes(group))), None)


def hidden_share(summary: Sums, requests: Sequence[LongRequest]) -> float | None:
    """Return the share of long requests below break-even if it is above a tenth while all together gain.

    None otherwise. This is p10 below break-even, at the lowest possible cost, and the mean above. The sample
    must gain too: the share and the mean are of the same requests.
    """
    speedup = summary.speedup_ratio
    if speedup is None or speedup.value <= 1:
        return None
    known = [request for request in requests if not isnan(request.break_even)]
    if sum(each.accepted_tokens for each in known) <= sum(each.break_even * each.drafts for each in known):
        return None
    share = share_below_break_even(known)
    return share if share > MIN_HIDDEN_SHARE else None


def share_below_break_even(requests: Sequence[LongRequest]) -> float:
    """Return the share of requests with a known cost that are below break-even, corrected for chance.

    A request's A accepted tokens over its D drafts scatter about its own mean. Near break-even, chance alone
    puts half of equal requests below it. So the variance between requests is separated from that within each,
    as a meta-analysis does with its studies. Requests of different K are evaluated separately: their means
    differ even at equal acceptance.

    - A draft that accepts m of at most K tokens on average has at most the variance v = m·(K - m): each draft
      is accepted entirely or not at all (Bhatia and Davis, American Mathematical Monthly 107, 2000).
    - For requests with one mean m = ΣA/ΣD, Q = Σ D·(A/D - m)² / v is below the 0.99 quantile of χ² with n - 1
      degrees of freedom in at least 99 % of samples (Cochran, Biometrics 10, 1954): none counts then.
    - Above, their means have the variance τ² = v·(Q - (n - 1)) / (ΣD - ΣD²/ΣD) (DerSimonian and Laird,
      *Meta-analysis in clinical trials*, 1986).
    - A request's own mean is about m + w·(A/D - m) with the variance w·v/D, where w = τ²/(τ² + v/D) (Efron
      and Morris, JASA 70, 1975). The sum of the probabilities that it is below break-even is their number.
    """
    below = sum(_below(group) for group in by_tokens(requests) if len(group) >= MIN_REQUESTS)
    return below / len(requests) if requests else 0.0


def _below(requests: Sequence[LongRequest]) -> float:
    """Return the expected number of requests of one K below break-even; 0 if they may be equal."""
    drafts = sum(each.drafts for each in requests)
    mean = sum(each.accepted_tokens for each in requests) / drafts
    variance = mean * (requests[0].tokens - mean)
    squares = sum(each.drafts * (each.accepted_tokens / each.drafts - mean) ** 2 for each in requests)
    freedom = len(requests) - 1
    ninth = 2 / (9 * freedom)  # the quantile of χ² by Wilson and Hilferty, 1931
    if squares <= variance * freedom * (1 - ninth + _Z99 * sqrt(ninth)) ** 3:
        return 0.0
    between = (squares - freedom * variance) / (drafts - sum(each.drafts**2 for each in requests) / drafts)
    return sum(_probability_below(each, mean, variance, between) for each in requests)


def _probability_below(request: LongRequest, mean: float, variance: float, between: float) -> float:
    """Return the probability that a request's own mean is below break-even."""
    own = variance / request.drafts
    weight = between / (between + own)
    posterior = mean + weight * (request.accepted_tokens / request.drafts - mean)
    return (1 + erf((request.break_even - posterior) / sqrt(2 * weight * own))) / 2
