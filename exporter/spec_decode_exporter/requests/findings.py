"""Findings about requests: by group, by model, by user, by prompt length and since the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple

from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.record import Refusal, RequestSource
from spec_decode_exporter.requests.summary import GroupKey, RequestSummary
from spec_decode_exporter.requests.totals import RequestTotals

OTHER: Final = "other"
"""The label of values beyond the cardinality limits."""
UNKNOWN: Final = "unknown"
"""The label of a request type or a temperature that the sender omits."""


class GroupFindings(NamedTuple):
    """One group in one window."""

    key: GroupKey
    summary: RequestSummary


class Kind(NamedTuple):
    """Requests with one value of a label, and what a draft gives them."""

    value: str
    """Request type, or label of the bucket of temperatures or prompt lengths."""
    length: Estimate
    """Acceptance length in tokens."""


class Mixture(NamedTuple):
    """Two kinds of a model's requests whose acceptance lengths differ beyond their bounds."""

    label: str
    """Label by which they differ: ``request_type``, ``temperature`` or ``prompt_tokens``."""
    low: Kind
    high: Kind


class ModelFindings(NamedTuple):
    """All requests of one model in one window."""

    model_name: str
    summary: RequestSummary
    mixture: Mixture | None
    """None unless the workload is mixed."""
    advice: Sequence[str]
    """Plain sentences, the most useful first; untrusted names in them are not yet escaped."""

    @property
    def mixed(self) -> bool:
        """True if an average over the model's requests hides that two kinds of them differ."""
        return self.mixture is not None


class WindowFindings(NamedTuple):
    """One window."""

    seconds: float
    partial: bool
    """The exporter is younger than the window, took no requests in a part of it, or kept only the newest."""
    groups: Sequence[GroupFindings] = ()
    models: Sequence[ModelFindings] = ()
    covered_seconds: float = 0.0
    """Time whose requests are complete: shorter than a partial window."""


class UserFindings(NamedTuple):
    """Requests of one user, as a hash, in the longest window."""

    user: str
    model_name: str
    summary: RequestSummary


class PromptBucket(NamedTuple):
    """Requests of one model with about the same length of the prompt, in the longest window."""

    prompt_tokens: str
    """The bucket's label: ``0-1000``, ``1000-4000``, …, ``>64000``."""
    summary: RequestSummary


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
    since_start: Mapping[GroupKey, RequestTotals] = field(default_factory=dict)
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


def bucket_labels(bounds: Sequence[float]) -> list[str]:
    """Return the labels of the buckets below ascending upper ``bounds``, and of the one above them all.

    A bound belongs to the bucket below it: ``0.3-0.7`` contains 0.7 and not 0.3. A first bound of 0 is a
    bucket of its own, ``0``. The last label is ``>1``. No label has a space.
    """
    texts = [format(Decimal(str(bound)), "f").removesuffix(".0") for bound in bounds]
    buckets = zip(bounds, ["0", *texts], texts, strict=False)
    return [*(text if bound == 0 else f"{lower}-{text}" for bound, lower, text in buckets), f">{texts[-1]}"]


def bucket_text(label: str) -> str:
    """Return the text of a bucket: ``0.3-0.7`` is "up to 0.7", ``>1`` "above 1"; other texts stay."""
    if label.startswith(">"):
        return f"above {label.removeprefix('>')}"
    lower, _, upper = label.rpartition("-")
    return f"up to {upper}" if lower else label
