"""What the requests of a window say: by group, by model, and of the mix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.request import Refusal

OTHER = "other"
"""The label of what is beyond the most that are told apart."""
UNKNOWN = "unknown"
"""The label of a request type or a temperature that nobody said."""


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """Requests that are counted together; the fields are the metrics' labels."""

    model_name: str
    request_type: str
    temperature: str
    """The bucket's label: ``0``, ``to 0.3``, ``to 0.7``, ``to 1``, ``above 1``, ``unknown``."""

    @property
    def labels(self) -> dict[str, str]:
        """The metrics' labels by their names."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of a number over requests, each request counting once."""

    p10: float
    p50: float
    p90: float


@dataclass(frozen=True, slots=True)
class RequestTotals:
    """Sums over requests."""

    requests: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    """Tokens saved: each came out without a step of the target of its own."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What some requests of one window have in common. What has no value is None."""

    totals: RequestTotals
    acceptance_ratio: Percentiles | None
    """A/T of those that drafted."""
    mean_acceptance_ratio: float | None
    """The mean over requests that drafted; ``totals`` is as the server weighs it, by draft tokens."""
    acceptance_length_tokens: Percentiles | None
    """1 + A/D of those that drafted."""
    time_per_output_token_seconds: Percentiles | None
    """decode_seconds / (G - 1), of those that say."""
    speedup_ratio: Estimate | None
    """Of all their tokens together, at what drafting costs; bounds from the requests' own scatter."""
    below_break_even: int
    """Requests that speculation made slower."""
    evaluated: int
    """Requests of which that can be said."""
    rejected: int
    """Pathological: almost nothing of a fair number of draft tokens was accepted."""
    repetitive: int
    """Pathological: almost everything was, as in a loop of repetition."""


class Effect(StrEnum):
    """What speculation does to a group of requests; the value is a label and a word of the API."""

    GAINS = "gains"
    """The lower bound of its speed-up is above 1."""
    LOSES = "loses"
    """The upper bound is below 1; by a default cost alone, also its drafts give hardly a token."""
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class GroupFindings:
    """One group in one window."""

    key: GroupKey
    summary: Summary
    effect: Effect


@dataclass(frozen=True, slots=True)
class Modes:
    """Two populations in one: requests of one number of draft tokens fall into two heaps, few between."""

    low_share: float
    """Of the requests, those in the lower heap; 0 to 1."""
    low_mean: float
    """Their mean acceptance ratio."""
    high_mean: float


@dataclass(frozen=True, slots=True)
class ModelFindings:
    """All requests of one model in one window."""

    model_name: str
    summary: Summary
    modes: Modes | None
    """None unless the population is bimodal."""
    mixed: bool
    """The mixed-workload finding: bimodal, or beyond chance p10 below break-even while the mean is above."""
    advice: Sequence[str]
    """Plain sentences, the most useful first; what strangers named is not yet escaped in them."""
    acceptance_counts: Sequence[int] = ()
    """Requests that drafted, by twentieths of their acceptance ratio, 1 belonging to the last."""


@dataclass(frozen=True, slots=True)
class WindowFindings:
    """One window."""

    seconds: float
    partial: bool
    """Requests of the window were let go for want of room, or the exporter is younger than the window."""
    groups: Sequence[GroupFindings] = ()
    models: Sequence[ModelFindings] = ()
    covered_seconds: float = 0.0
    """The time of it of which every request is here: shorter than the window where that is partial."""


@dataclass(frozen=True, slots=True)
class RequestHistogram:
    """Requests by a number, since the exporter's start."""

    upper_bounds: Sequence[float]
    """Ascending; what is above the last is only in ``count``."""
    counts: Sequence[int]
    """Per bucket, not cumulative; one more than bounds."""
    sum: float

    @property
    def count(self) -> int:
        """Return how many were observed."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True)
class GroupTotals:
    """One group since the exporter's start."""

    totals: RequestTotals
    acceptance_ratio: RequestHistogram
    acceptance_length_tokens: RequestHistogram


@dataclass(frozen=True, slots=True)
class UserFindings:
    """One user, hashed, in the longest window."""

    user: str
    model_name: str
    summary: Summary


@dataclass(frozen=True, slots=True)
class RequestFindings:
    """Everything that the requests say at one moment."""

    enabled: bool = False
    windows: Mapping[str, WindowFindings] = field(default_factory=dict)
    """By the ``window`` label."""
    since_start: Mapping[GroupKey, GroupTotals] = field(default_factory=dict)
    users: Sequence[UserFindings] = ()
    taken: int = 0
    """Requests counted since the start."""
    bodies: int = 0
    """Bodies taken since the start, whatever was refused of what was in them."""
    refused: Mapping[Refusal, int] = field(default_factory=dict)
    folded: Mapping[str, int] = field(default_factory=dict)
    """Requests counted as ``other`` since the start, by label: model_name, request_type, user, and group
    for combinations of model, type and temperature."""
