"""From where on speculation is called good or bad: every threshold, with its default."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Any, Final, TypeVar

from pydantic import Field

from spec_decode_exporter.config.http_settings import Section
from spec_decode_exporter.config.values import Duration, Quantity, Share

Length = Annotated[float, Field(ge=1, allow_inf_nan=False)]
"""Tokens a draft gives, the bonus token included: 1 is none accepted."""

AnySection = TypeVar("AnySection", bound=Section)

_ASCENDING: Final = (
    ("speedup", ("harmful", "poor", "marginal", "healthy")),
    ("acceptance", ("harmful_length", "poor_length", "healthy_length", "optimal_length")),
    ("acceptance", ("healthy_length_per_token", "optimal_length_per_token")),
    ("acceptance", ("poor_ratio", "healthy_ratio", "optimal_ratio")),
    ("depth", ("decrease_below", "increase_above")),
)
"""Sections, and keys of theirs that must not decrease."""


class SpeedupPolicy(Section):
    """The verdict where the cost of drafting is known: by the estimated speed-up."""

    harmful: Quantity = Field(
        default=1.0, description="Harmful, if the speed-up is below this even at its upper bound."
    )
    poor: Quantity = Field(default=1.1, description="Poor below this.")
    marginal: Quantity = Field(default=1.3, description="Marginal below this.")
    healthy: Quantity = Field(default=2.0, description="Healthy below this, optimal from it.")


class AcceptancePolicy(Section):
    """The verdict where the cost of drafting is not known: by the acceptance length and the pooled ratio.

    The pooled ratio is the share of the draft tokens that are accepted, of those whose predecessors were.
    """

    harmful_length: Length = Field(
        default=1.2, description="Harmful, if the length is below this even at its upper bound."
    )
    poor_length: Length = Field(
        default=1.3, description="Poor, if the length is below this or the ratio below `poor_ratio`."
    )
    poor_ratio: Share = Field(default=0.40, description="Poor, if the pooled ratio is below this.")
    healthy_length: Length = Field(
        default=1.5,
        description="Healthy, if the length is at least this and the ratio at least `healthy_ratio`.",
    )
    healthy_length_per_token: Share = Field(
        default=0.5,
        description="One and this for each token of a draft, where that is less than `healthy_length`.",
    )
    healthy_ratio: Share = Field(default=0.60, description="The least pooled ratio that is healthy.")
    optimal_length: Length = Field(
        default=2.0,
        description="Optimal, if the length is more than this and the ratio more than `optimal_ratio`.",
    )
    optimal_length_per_token: Share = Field(
        default=0.7,
        description="One and this for each token of a draft, where that is less than `optimal_length`.",
    )
    optimal_ratio: Share = Field(default=0.70, description="The pooled ratio above which it is optimal.")


class DepthPolicy(Section):
    """How many tokens are recommended."""

    tolerance: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.03,
        description="The fewest tokens are recommended whose speed-up is within this part of the best.",
    )
    increase_above: Share = Field(
        default=0.30,
        description="Where the cost is not known: more tokens, if the last position is accepted in more "
        "than this part of the drafts.",
    )
    decrease_below: Share = Field(
        default=0.10,
        description="Where the cost is not known: fewer tokens, if the last position is accepted in less "
        "than this part of the drafts.",
    )


class FindingPolicy(Section):
    """What is pointed out beside the verdict."""

    low_first_position: Share = Field(
        default=0.70, description="The first position is accepted in less than this part of the drafts."
    )
    cliff_ratio: Share = Field(
        default=0.5,
        description="A position is accepted less often than this, relative to the position before it.",
    )
    wasted_last_position: Share = Field(
        default=0.10, description="The last position is accepted in less than this part of the drafts."
    )
    low_coverage: Share = Field(
        default=0.5, description="Less than this part of the decode steps had a draft."
    )
    tail_ratio: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(
        default=5.0,
        description="The slowest decode steps take more than this many times as long as the usual ones.",
    )
    kv_cache_usage: Share = Field(
        default=0.9, description="More than this part of the key-value cache is in use."
    )
    repetition_first_position: Share = Field(
        default=0.98,
        description="The first position is accepted in at least this part of the drafts: the model may be "
        "repeating itself.",
    )


class DropPolicy(Section):
    """When a fall of the acceptance length is called a drop."""

    ratio: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.15, description="The drop to find, as a part of the usual acceptance length."
    )
    false_alarm_period: Duration = Field(
        default=7 * 86_400.0,
        description="How often an alarm without a cause is acceptable. Longer finds drops later.",
    )
    warm_up: Duration = Field(
        default=60.0, description="How long an engine must have drafted before drops are looked for."
    )


class Policy(Section):
    """From where on speculation is called good or bad. A target may set some of it for itself."""

    min_drafts: Annotated[int, Field(ge=1)] = Field(
        default=100, description="With fewer drafts in the longest window there is no verdict and no advice."
    )
    max_half_width: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        default=0.25,
        description="Nor where the bounds of the acceptance length are farther from it than this part of it.",
    )
    speedup: SpeedupPolicy = Field(
        default_factory=SpeedupPolicy, description="The verdict where the cost of drafting is known."
    )
    acceptance: AcceptancePolicy = Field(
        default_factory=AcceptancePolicy, description="The verdict where it is not known."
    )
    depth: DepthPolicy = Field(default_factory=DepthPolicy, description="How many tokens are recommended.")
    findings: FindingPolicy = Field(
        default_factory=FindingPolicy, description="What is pointed out beside the verdict."
    )
    drops: DropPolicy = Field(
        default_factory=DropPolicy, description="When a fall of the acceptance length is called a drop."
    )


def merged(own: Policy | None, general: Policy) -> Policy:
    """Return ``general`` with what a target sets itself in its place, key by key."""
    return general if own is None else _over(own, general)


def _over(own: AnySection, general: AnySection) -> AnySection:
    """Put the keys that ``own`` sets in the place of those of ``general``, at any depth."""
    chosen = {name: _chosen(getattr(own, name), getattr(general, name)) for name in own.model_fields_set}
    return general.model_copy(update=chosen)


def _chosen(own: Any, general: Any) -> object:  # noqa: ANN401  a section, or what a key holds
    return _over(own, general) if isinstance(own, Section) else own


def misordered(own: Policy, whole: Policy) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the thresholds of ``whole`` that contradict each other, each at a key that ``own`` sets."""
    for section, keys in _ASCENDING:
        values, given = getattr(whole, section), getattr(own, section).model_fields_set
        for lower, upper in pairwise(keys):
            least, most = getattr(values, lower), getattr(values, upper)
            if least > most and upper in given:
                yield (section, upper), f"is less than `{lower}`, {least:g}; raise it, or lower `{lower}`"
            elif least > most and lower in given:
                yield (section, lower), f"is more than `{upper}`, {most:g}; lower it, or raise `{upper}`"
