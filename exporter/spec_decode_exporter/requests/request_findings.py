"""Findings about requests: by group, by model, by user, and since the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.request_record import Refusal

OTHER = "other"
"""The label of values beyond the cardinality limits."""
UNKNOWN = "unknown"
"""The label of a request type or a temperature that the sender omits."""


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """Requests that are counted together; the fields are the metrics' labels."""

    model_name: str
    request_type: str
    temperature: str
    """The bucket's label: ``0``, ``0-0.3``, ``0.3-0.7``, ``0.7-1``, ``>1``, ``unknown``."""

    @property
    def labels(self) -> dict[str, str]:
        """The metrics' labels by their names."""
        return asdict(self)


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
class RequestTotals:
    """Sums over requests."""

    requests: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    """Tokens saved: none needed its own step of the target."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Aggregate of requests of one window. An unknown value is None."""

    totals: RequestTotals
    acceptance_ratio: Percentiles | None
    """A/T of requests that drafted."""
    mean_acceptance_ratio: float | None
    """Mean over requests that drafted; the server's counters, as ``totals``, weigh by draft tokens."""
    acceptance_length_tokens: Percentiles | None
    """1 + A/D of requests that drafted."""
    time_per_output_token_seconds: Percentiles | None
    """decode_seconds / (G - 1), of requests that report both."""
    speedup_ratio: Estimate | None
    """Speed-up of all tokens at the cost of drafting, with bounds from the variance between requests."""
    below_break_even: int
    """Requests that speculation made slower."""
    evaluated: int
    """Requests with decode steps and a known cost."""
    rejected: int
    """Pathological requests: almost none of the draft tokens were accepted."""
    repetitive: int
    """Pathological requests: almost all draft tokens were accepted, as in a repetition loop."""


class Effect(StrEnum):
    """Effect of speculation on a group of requests: a label value and a word of the API."""

    GAINS = "gains"
    """The lower bound of the speed-up is above 1."""
    LOSES = "loses"
    """The upper bound is below 1; at a typical cost, also the acceptance length is below a threshold."""
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """One group in one window."""

    key: GroupKey
    summary: Summary
    effect: Effect


@dataclass(frozen=True, slots=True)
class Modes:
    """Two modes of the acceptance of requests with the same number of draft tokens."""

    low_share: float
    """Share of the requests in the lower mode, 0 to 1."""
    low_mean: float
    """Mean acceptance ratio of the lower mode."""
    high_mean: float
    requests: int
    """Requests of both modes: those with long answers and the same number of draft tokens."""

    @property
    def mean(self) -> float:
        """Mean acceptance ratio of the same requests: between the two."""
        return self.low_share * self.low_mean + (1 - self.low_share) * self.high_mean


@dataclass(frozen=True, slots=True)
class ModelFindings:
    """All requests of one model in one window."""

    model_name: str
    summary: Summary
    modes: Modes | None
    """None unless the requests are bimodal."""
    mixed: bool
    """Mixed-workload finding: bimodal, or p10 significantly below break-even while the mean is above."""
    advice: Sequence[str]
    """Plain sentences, the most useful first; untrusted names in them are not yet escaped."""
    acceptance_counts: Sequence[int] = ()
    """Acceptance histogram (20 bins) of the requests that drafted; 1 belongs to the last bin."""


@dataclass(frozen=True, slots=True)
class WindowFindings:
    """One window."""

    seconds: float
    partial: bool
    """Requests of the window were removed for lack of space, or the exporter is younger than the window."""
    groups: Sequence[GroupFindings] = ()
    models: Sequence[ModelFindings] = ()
    covered_seconds: float = 0.0
    """Time whose requests are complete: shorter than a partial window."""


@dataclass(frozen=True, slots=True)
class RequestHistogram:
    """Histogram over requests since the exporter's start."""

    upper_bounds: Sequence[float]
    """Ascending; a value equal to a bound is below it. The label `le` of the metric."""
    counts: Sequence[int]
    """Between two bounds, not cumulative; the last above every bound."""
    sum: float
    """Sum of the values."""

    @property
    def count(self) -> int:
        """Number of observations."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class GroupTotals:
    """One group since the exporter's start."""

    totals: RequestTotals
    acceptance_ratio: RequestHistogram
    acceptance_length_tokens: RequestHistogram


@dataclass(frozen=True, slots=True)
class UserFindings:
    """Requests of one user, as a hash, in the longest window."""

    user: str
    model_name: str
    summary: Summary


@dataclass(frozen=True, slots=True)
class PromptBucket:
    """Requests of one model with about the same length of the prompt, in the longest window."""

    prompt_tokens: str
    """The bucket's label: ``0-1000``, ``1000-4000``, …, ``>64000``."""
    mean_prompt_tokens: float
    cached_ratio: float | None
    """Share of the prompt tokens that the prefix cache had, of requests that report it."""
    acceptance_length: Estimate | None
    """1 + ΣA/ΣD with bounds from the variance between requests; None of too few requests."""
    time_to_first_token_seconds: Percentiles | None
    summary: Summary
    effect: Effect


@dataclass(frozen=True, slots=True)
class ContextFall:
    """The acceptance length is significantly lower (95 %) with long prompts than with short ones."""

    short_tokens: float
    """Mean prompt tokens of the shortest bucket with enough requests."""
    short_length: float
    """Its acceptance length."""
    long_tokens: float
    """Mean prompt tokens of the longest bucket with enough requests."""
    long_length: float
    """Its acceptance length."""


@dataclass(frozen=True, slots=True)
class PromptFindings:
    """Requests of one model by the length of the prompt, in the longest window."""

    model_name: str
    buckets: Sequence[PromptBucket]
    """Ascending; without empty ones."""
    fall: ContextFall | None


@dataclass(frozen=True, slots=True)
class RequestFindings:
    """All findings about requests at one moment."""

    enabled: bool = False
    windows: Mapping[str, WindowFindings] = field(default_factory=dict)
    """By the ``window`` label."""
    since_start: Mapping[GroupKey, GroupTotals] = field(default_factory=dict)
    users: Sequence[UserFindings] = ()
    prompts: Sequence[PromptFindings] = ()
    """Models whose senders report prompt tokens, in the longest window."""
    taken: int = 0
    """Requests counted since the start."""
    refused: Mapping[Refusal, int] = field(default_factory=dict)
    folded: Mapping[str, int] = field(default_factory=dict)
    """Requests counted as ``other`` since the start, by label: model_name, request_type, user, and group.

    A group is a combination of model, type and temperature."""
