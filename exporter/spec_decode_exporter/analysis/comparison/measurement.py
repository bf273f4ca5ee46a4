"""What was measured of an engine over one window, each figure with its 95 % bounds and the counts behind it.

It is what is kept of a server before it is changed, to be held against the same server afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from spec_decode_exporter.analysis.statistics.ratio_bounds import MAX_COSINES
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Latency

Count = Annotated[int, Field(ge=0)]


class Quantity(StrEnum):
    """A figure; named as its metric, where there is one."""

    DRAFT_ACCEPTANCE_RATIO = "draft_acceptance_ratio"
    ACCEPTANCE_LENGTH = "acceptance_length_tokens"
    DRAFT_LENGTH = "draft_length_tokens"
    COVERAGE = "coverage_ratio"
    TOKENS_PER_STEP = "effective_tokens_per_step"
    TIME_PER_OUTPUT_TOKEN = "time_per_output_token_seconds"  # noqa: S105 - a token of text
    STEP = "step_seconds"
    DRAFTS = "drafts_per_second"
    DRAFT_TOKENS = "draft_tokens_per_second"
    ACCEPTED_TOKENS = "accepted_tokens_per_second"
    GENERATION_TOKENS = "generation_tokens_per_second"
    REQUESTS = "requests_per_second"
    RUNNING_REQUESTS = "running_requests"
    WAITING_REQUESTS = "waiting_requests"
    KV_CACHE_USAGE = "kv_cache_usage_ratio"
    OUTPUT_TOKENS = "output_tokens_per_request"
    PROMPT_TOKENS = "prompt_tokens_per_request"
    PREFIX_CACHE_HITS = "prefix_cache_hit_ratio"


class MeasurementPart(BaseModel):
    """A part of what was measured: frozen, complete, and of finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MeasuredFigure(MeasurementPart):
    """A figure. Its bounds are null where too few requests passed through the window to say."""

    value: float
    lower: float | None = None
    upper: float | None = None
    standard_error: Annotated[float, Field(ge=0)] | None = None
    """Null of a quantile too."""
    degrees: Annotated[int, Field(ge=1, le=MAX_COSINES)] | None = None
    """The degrees of freedom of the error."""

    @classmethod
    def of(cls, value: float, estimate: Estimate | None) -> Self:
        """Return a value, with the bounds of its estimate if there is one."""
        if estimate is None:
            return cls(value=value)
        return cls(
            value=value,
            lower=min(value, estimate.lower),
            upper=max(value, estimate.upper),
            standard_error=estimate.standard_error,
            degrees=estimate.degrees,
        )

    def divided(self, number: int) -> MeasuredFigure:
        """Return the same for one of so many engines that it is the sum of."""
        return MeasuredFigure(
            value=self.value / number,
            lower=None if self.lower is None else self.lower / number,
            upper=None if self.upper is None else self.upper / number,
            standard_error=None if self.standard_error is None else self.standard_error / number,
            degrees=self.degrees,
        )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if (self.lower is None) != (self.upper is None):
            raise ValueError("has one bound and not the other")
        if self.lower is not None and self.upper is not None and not self.lower <= self.value <= self.upper:
            raise ValueError("has bounds that do not contain it")
        if (self.standard_error is None) != (self.degrees is None):
            raise ValueError("has an error without degrees of freedom, or these without an error")
        return self


class MeasuredHistogram(MeasurementPart):
    """One of the server's own histograms, and its quantiles in seconds."""

    bounds: tuple[float, ...]
    """The upper bounds of the buckets; that of the last bucket, which is infinite, is left out."""
    counts: tuple[Count, ...]
    """How many observations were no greater than each bound, and how many there were."""
    p50: MeasuredFigure | None
    p95: MeasuredFigure | None
    p99: MeasuredFigure | None

    @model_validator(mode="after")
    def _cumulative(self) -> Self:
        if len(self.counts) != len(self.bounds) + 1 or list(self.counts) != sorted(self.counts):
            raise ValueError("has counts that are not those of its bounds")
        return self

    @property
    def quantiles(self) -> dict[str, MeasuredFigure | None]:
        """The quantiles by their names."""
        return {"p50": self.p50, "p95": self.p95, "p99": self.p99}


class Measurement(MeasurementPart):
    """Everything that was measured of one engine, or of several as one."""

    seconds: Annotated[float, Field(ge=0)]
    """The time that was covered."""
    polls: Count
    counts: Mapping[str, Count]
    """How far each counter moved; one that the engine does not have is absent."""
    position_accepted_tokens: tuple[Count, ...]
    """The draft tokens that were accepted at each of the K draft positions."""
    quantities: Mapping[Quantity, MeasuredFigure]
    """The figures that there are."""
    position_acceptance_ratio: tuple[MeasuredFigure | None, ...]
    position_conditional_acceptance_ratio: tuple[MeasuredFigure | None, ...]
    latency_seconds: Mapping[Latency, MeasuredHistogram]

    @property
    def tokens(self) -> int:
        """K, the number of draft positions."""
        return len(self.position_accepted_tokens)

    @model_validator(mode="after")
    def _of_all_positions(self) -> Self:
        each = self.position_acceptance_ratio, self.position_conditional_acceptance_ratio
        if any(len(ratios) != self.tokens for ratios in each):
            raise ValueError("has more ratios of positions than positions, or fewer")
        return self
