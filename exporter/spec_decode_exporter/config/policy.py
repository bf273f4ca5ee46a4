"""Policy: thresholds of verdicts, recommendations and findings. A ``ClassVar`` is not configurable."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, ClassVar, TypeVar

from pydantic import Field

from spec_decode_exporter.config.mistakes import KeyPath, Mistake
from spec_decode_exporter.config.types import Duration, Quantity, Section, Share

AnySection = TypeVar("AnySection", bound=Section)


# fmt: off
class SpeedupPolicy(Section):
    """Verdict by the bounds of the estimated speed-up, which contain the interval of the cost."""

    harmful: Quantity = Field(default=1.0, description="Harmful if even the upper bound is below this; speculation pays if the lower bound is at least this.")
    poor: Quantity = Field(default=1.1, description="Poor if the best guess is below this.")
    marginal: Quantity = Field(default=1.3, description="Marginal if the best guess is below this.")
    healthy: Quantity = Field(default=2.0, description="Healthy if the best guess is below this, optimal from it.")


class DepthPolicy(Section):
    """Recommended number of draft tokens."""

    tolerance: Annotated[float, Field(ge=0, lt=1)] = Field(default=0.03, description="Recommendation is the fewest tokens whose speed-up is within this share of the best.")
    increase_above: ClassVar[float] = 0.30
    """The last position is accepted in more than this share of the drafts: one more token may pay."""


class FindingPolicy(Section):
    """Thresholds of findings, which explain the verdict."""

    low_first_position: Share = Field(default=0.70, description="First position is accepted in less than this share of the drafts.")
    wasted_last_position: Share = Field(default=0.10, description="Last position is accepted in less than this share of the drafts.")
    below_expectation: ClassVar[float] = 0.15
    """A position is accepted less often than `speculative.expected_positions` by at least this."""
    cliff_ratio: ClassVar[float] = 0.5
    """A position is accepted less often than this, relative to the position before it."""
    low_coverage: ClassVar[float] = 0.5
    """Less than this share of the decode steps had a draft."""
    tail_ratio: ClassVar[float] = 5.0
    """The p99 of the decode step time is more than this multiple of the median."""
    kv_cache_usage: ClassVar[float] = 0.9
    """More than this share of the KV cache is in use."""
    repetition_first_position: ClassVar[float] = 0.98
    """The first position is accepted in at least this share: the model may be repeating itself."""


class DropPolicy(Section):
    """Detection of drops of the acceptance length."""

    ratio: Annotated[float, Field(gt=0, lt=1)] = Field(default=0.15, description="Size of a drop to detect, relative to the baseline of the acceptance length.")
    false_alarm_period: Duration = Field(default=7 * 86_400.0, description="Mean time between two false alarms. A longer time detects drops later.")
    warm_up: Duration = Field(default=60.0, description="Time that an engine must have drafted before drops are detected.")


class Policy(Section):
    """Thresholds of verdicts, recommendations and findings. A target may override some of them."""

    min_drafts: Annotated[int, Field(ge=1)] = Field(default=100, description="Minimum number of drafts in the longest window for a verdict and a recommendation.")
    max_half_width: ClassVar[float] = 0.25
    """Maximum half-width of the acceptance length's bounds for a verdict, relative to the length."""
    speedup: SpeedupPolicy = Field(default_factory=SpeedupPolicy, description="Verdict by the estimated speed-up.")
    depth: DepthPolicy = Field(default_factory=DepthPolicy, description="Recommended number of draft tokens.")
    findings: FindingPolicy = Field(default_factory=FindingPolicy, description="Thresholds of findings.")
    drops: DropPolicy = Field(default_factory=DropPolicy, description="Detection of drops of the acceptance length.")
# fmt: on


def merged(own: AnySection, general: AnySection) -> AnySection:
    """Return ``general`` with the keys that a target sets itself replaced, at any depth."""
    values = {name: (getattr(own, name), getattr(general, name)) for name in own.model_fields_set}
    sections = {name: merged(*pair) for name, pair in values.items() if isinstance(pair[0], Section)}
    return general.model_copy(update={name: pair[0] for name, pair in values.items()} | sections)


def misordered(place: KeyPath, own: Policy, whole: Policy) -> Iterator[Mistake]:
    """Yield the thresholds of ``whole`` that contradict each other, each at a key that ``own``, at ``place``, sets."""
    for lower, upper in pairwise(("harmful", "poor", "marginal", "healthy")):
        low, high = getattr(whole.speedup, lower), getattr(whole.speedup, upper)
        changed = [name for name in (upper, lower) if name in own.speedup.model_fields_set]
        if low > high and changed:
            wrong = f"makes `{lower}`, {low:g}, more than `{upper}`, {high:g}"
            yield (*place, "speedup", changed[0]), f"{wrong}; change one of the two"
