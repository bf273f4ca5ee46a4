"""Requests as they are kept, their sums since the start, and summaries of any of them with percentiles.

docs/explanation/request-statistics.md has the formulas. Whole requests are the sample: correlation within a
request does not make the bounds too narrow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from operator import mul
from typing import Final, NamedTuple

from spec_decode_exporter.costs.cost import CostRange, CostSource
from spec_decode_exporter.figures.estimate import Estimate, ratio, sampled_ratio
from spec_decode_exporter.requests.record import RequestRecord, RequestSource

MIN_REQUESTS: Final = 30  # below, the error of a ratio estimator is itself unknown (Cochran, section 6.8)
ACCEPTANCE_BINS: Final = 20  # bins of the acceptance histogram of a model
ACCEPTANCE_RATIO_BOUNDS: Final = (0.05, *(tenth / 10 for tenth in range(1, 10)), 0.95, 1.0)
ACCEPTANCE_LENGTH_BOUNDS: Final = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 12.0, 16.0)
"""In tokens; K tokens give at most 1 + K, and K rarely exceeds 15."""
OTHER: Final = "other"  # the label of values beyond the cardinality limits
UNKNOWN: Final = "unknown"  # the label of a request type or a temperature that the sender omits


class Effect(StrEnum):
    """Statistically significant effect of speculation on requests: a label value and a word of the API."""

    GAINS = "gains"  # the lower bound of the speed-up is above 1
    LOSES = "loses"  # the upper bound is below 1
    UNCLEAR = "unclear"


class GroupKey(NamedTuple):
    """Requests that are counted together; the fields are the metrics' labels."""

    model_name: str
    request_type: str
    temperature: str  # the bucket's label: ``0``, ``0-0.3``, ``0.3-0.7``, ``0.7-1``, ``>1``, ``unknown``


def bucket_labels(bounds: Sequence[float]) -> list[str]:
    """Return the labels of the buckets below ascending upper ``bounds``, and of the one above them all.

    A bound belongs to the bucket below it: ``0.3-0.7`` contains 0.7 and not 0.3. A first bound of 0 is a
    bucket of its own, ``0``. The last label is ``>1``. No label has a space.
    """
    texts = [format(Decimal(str(bound)), "f").removesuffix(".0") for bound in bounds]
    buckets = zip(bounds, ["0", *texts], texts, strict=False)
    return [*(text if bound == 0 else f"{lower}-{text}" for bound, lower, text in buckets), f">{texts[-1]}"]


def bucket_text(label: str) -> str:
    """Return the text of a bucket: ``0.3-0.7`` is "up to 0.7", ``>64000`` "above 64,000"; others stay."""
    if label.startswith(">"):
        return f"above {Decimal(label.removeprefix('>')):,}"
    lower, _, upper = label.rpartition("-")
    return f"up to {Decimal(upper):,}" if lower else label


class RequestWork(NamedTuple):
    """Tokens of a request, and the time that they took, in decode steps without speculation."""

    tokens: int  # x: those after the first
    steps_without_speculation: float  # y at the best guess of the cost
    least_steps_without_speculation: float  # y at the lowest cost
    most_steps_without_speculation: float  # y at the highest cost
    is_typical: bool  # True if the cost is the method's typical cost

    @classmethod
    def of(cls, request: RequestRecord, cost: CostRange | None) -> RequestWork | None:
        """Return the work of a request; None without decode steps, or if it or the cost is unknown."""
        drafts = request.drafts
        steps = max(drafts, request.decoded_tokens - request.accepted_tokens)
        if cost is None or not steps or request.source is RequestSource.USAGE:
            return None
        paying = steps if cost.guess.every_step else drafts
        guess, low, high = (
            steps + price.step * paying + price.token * request.draft_tokens
            for price in (cost.guess, cost.low, cost.high)
        )
        return cls(request.decoded_tokens, guess, low, high, cost.source is CostSource.TYPICAL)


class KeptRequest(NamedTuple):
    """A request of the windows, with labels of bounded cardinality."""

    ended_at: float  # monotonic
    key: GroupKey
    user: str  # label of the user; empty if unknown
    prompt_tokens: str  # label of the bucket of the prompt's length; empty if unknown
    record: RequestRecord  # its numbers, without the names that the sender wrote
    pathology: str  # of the record, which computes it at each reading
    work: RequestWork | None  # None if the steps or their cost are unknown


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles over requests, each counting once."""

    p10: float
    """The 10th percentile."""
    p50: float
    """The median."""
    p90: float
    """The 90th percentile."""


@dataclass(frozen=True, slots=True)
class RequestHistogram:
    """Histogram over requests since the exporter's start."""

    upper_bounds: tuple[float, ...]
    """Ascending; a value equal to a bound is below it. The label `le` of the metric."""
    counts: tuple[int, ...]  # between two bounds, not cumulative; the last above every bound
    sum: float = 0.0  # sum of the values

    def with_ratio(self, numerator: int, denominator: int) -> RequestHistogram:
        """Return the histogram with one more value; the same if the denominator is 0."""
        if not denominator:
            return self
        value, counts = numerator / denominator, list(self.counts)
        counts[bisect_left(self.upper_bounds, value)] += 1
        return replace(self, counts=tuple(counts), sum=self.sum + value)


class RequestTotals(NamedTuple):
    """Sums over the requests of a group since the exporter's start, for counters."""

    requests: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    acceptance_ratio_histogram: RequestHistogram = RequestHistogram(
        ACCEPTANCE_RATIO_BOUNDS, (0,) * (len(ACCEPTANCE_RATIO_BOUNDS) + 1)
    )
    """Requests that drafted, by A/T."""
    acceptance_length_tokens_histogram: RequestHistogram = RequestHistogram(
        ACCEPTANCE_LENGTH_BOUNDS, (0,) * (len(ACCEPTANCE_LENGTH_BOUNDS) + 1)
    )
    """Requests by 1 + A/D."""

    def with_request(self, request: RequestRecord) -> RequestTotals:
        """Return the sums with one more request."""
        drafts, tokens, accepted = request.drafts, request.draft_tokens, request.accepted_tokens
        return RequestTotals(
            *(self.requests + 1, self.drafts + drafts),
            *(self.draft_tokens + tokens, self.accepted_tokens + accepted),
            self.acceptance_ratio_histogram.with_ratio(accepted, tokens),
            self.acceptance_length_tokens_histogram.with_ratio(drafts + accepted, drafts),
        )


class RequestSummary:
    """Summary of requests of one window; estimates and percentiles are computed when they are first read."""

    def __init__(self, kept: Sequence[KeptRequest] = ()) -> None:
        self.kept = [*kept]
        self._records = [request.record for request in kept]
        self._drafted = [record for record in self._records if record.drafts]
        self._work = [request.work for request in kept if request.work is not None]
        self.requests = len(kept)
        self.drafts = sum(record.drafts for record in self._records)
        self.draft_tokens = sum(record.draft_tokens for record in self._records)
        self.accepted_tokens = sum(record.accepted_tokens for record in self._records)
        """Saved tokens: none needed its own step of the target."""
        self.rejected = sum(request.pathology == "rejected" for request in kept)
        """Pathological requests: almost none of their draft tokens were accepted."""
        self.repetitive = sum(request.pathology == "repetitive" for request in kept)
        """Pathological requests: almost all were, as in a repetition loop."""
        self.evaluated = len(self._work)  # requests with decode steps and a known cost
        self.below_break_even = sum(work.tokens < work.steps_without_speculation for work in self._work)
        """Requests that speculation made slower."""
        self.typical_costs = sum(work.is_typical for work in self._work)
        """Requests whose cost is the method's typical cost."""

    @classmethod
    def over(cls, parts: Iterable[RequestSummary]) -> RequestSummary:
        """Return the summary of all requests of others: each attribute is the sum of theirs."""
        found = cls()
        for part in parts:
            for name, value in vars(found).items():
                setattr(found, name, value + getattr(part, name))
        return found

    @cached_property
    def _acceptance(self) -> list[float]:
        return [each.accepted_tokens / each.draft_tokens for each in self._records if each.draft_tokens]

    @cached_property
    def acceptance_ratio(self) -> Percentiles | None:
        """Percentiles of A/T of requests that drafted."""
        return percentiles(self._acceptance)

    @property
    def mean_acceptance_ratio(self) -> float | None:
        """Mean over requests that drafted; the server's counters weigh by draft tokens."""
        return ratio(sum(self._acceptance), len(self._acceptance))

    @property
    def acceptance_counts(self) -> list[int]:
        """Requests by A/T in ``ACCEPTANCE_BINS``; a bound belongs to the bin above it, 1 to the last."""
        drafted = (each for each in self._records if each.draft_tokens)
        places = Counter(ACCEPTANCE_BINS * each.accepted_tokens // each.draft_tokens for each in drafted)
        places[ACCEPTANCE_BINS - 1] += places[ACCEPTANCE_BINS]
        return [places[place] for place in range(ACCEPTANCE_BINS)]

    @cached_property
    def acceptance_length_tokens(self) -> Percentiles | None:
        """Percentiles of 1 + A/D."""
        return percentiles(1 + each.accepted_tokens / each.drafts for each in self._drafted)

    @cached_property
    def time_per_output_token_seconds(self) -> Percentiles | None:
        """Percentiles of decode_seconds / (G - 1), of requests that report both."""
        timed = (each for each in self._records if (each.completion_tokens or 0) > 1)
        return percentiles(ratio(each.decode_seconds, (each.completion_tokens or 0) - 1) for each in timed)

    @cached_property
    def time_to_first_token_seconds(self) -> Percentiles | None:
        """Percentiles over requests that report it."""
        return percentiles(each.first_token_seconds for each in self._records)

    @property
    def mean_prompt_tokens(self) -> float | None:
        """Mean length of the prompts."""
        tokens = [each.prompt_tokens for each in self._records if each.prompt_tokens is not None]
        return ratio(sum(tokens), len(tokens))

    @property
    def cached_ratio(self) -> float | None:
        """Share of the prompt tokens that the prefix cache had, of requests that report it."""
        known = [each for each in self._records if each.cached_tokens is not None]
        cached = sum(each.cached_tokens or 0 for each in known)
        return ratio(cached, sum(each.prompt_tokens or 0 for each in known))

    @cached_property
    def acceptance_length(self) -> Estimate | None:
        """1 + ΣA/ΣD with bounds from the variance between requests; None of too few requests."""
        return acceptance_length(self.kept)

    @cached_property
    def speedup_ratio(self) -> Estimate | None:
        """Speed-up of all tokens; its bounds hold for every cost within the interval."""
        tokens, guess, low, high = ([work[place] for work in self._work] for place in range(4))
        best, fastest, slowest = (_ratio_estimate(tokens, steps) for steps in (guess, low, high))
        if best is None or fastest is None or slowest is None:
            return None
        return best._replace(lower=slowest.lower, upper=fastest.upper)

    @property
    def effect(self) -> Effect:
        """Statistically significant (95 %) effect of speculation, at any possible cost."""
        speedup = self.speedup_ratio
        if speedup is None or speedup.lower <= 1 <= speedup.upper:
            return Effect.UNCLEAR
        return Effect.GAINS if speedup.lower > 1 else Effect.LOSES


def acceptance_length(kept: Iterable[KeptRequest]) -> Estimate | None:
    """Return 1 + ΣA/ΣD of requests with its bounds; None of too few requests with drafts."""
    drafted = [(each.record.accepted_tokens, each.record.drafts) for each in kept if each.record.drafts]
    extra = _ratio_estimate([accepted for accepted, _ in drafted], [drafts for _, drafts in drafted])
    return extra and extra._replace(value=1 + extra.value, lower=1 + extra.lower, upper=1 + extra.upper)


def percentiles(values: Iterable[float | None]) -> Percentiles | None:
    """Return percentiles of the known values by type 7 of Hyndman and Fan (1996); None without one."""
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None

    def percentile(percent: int) -> float:
        place, part = divmod(percent * (len(ordered) - 1), 100)
        return ordered[place] + (ordered[place + 1] - ordered[place]) * part / 100 if part else ordered[place]

    return Percentiles(*(percentile(percent) for percent in (10, 50, 90)))


def _ratio_estimate(xs: Sequence[float], ys: Sequence[float]) -> Estimate | None:
    """Return Σx / Σy over requests with its 95 % bounds; None of fewer than ``MIN_REQUESTS``."""
    if len(xs) < MIN_REQUESTS or not sum(ys):
        return None
    products = (sum(map(mul, xs, xs)), sum(ys), sum(map(mul, xs, ys)), sum(map(mul, ys, ys)))
    return sampled_ratio(len(xs), sum(xs), *products)
