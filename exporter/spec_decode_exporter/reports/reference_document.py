"""Content of a reference file: measurements of engines and models, before a change of the server."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Annotated, Final, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from spec_decode_exporter.analysis.figure_table import COMPARED
from spec_decode_exporter.figures.estimate import MAX_COSINES, Estimate
from spec_decode_exporter.figures.quantile import LATENCY_QUANTILES, Edges, Quantile, edges
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets

Text = Annotated[str, Field(max_length=4096)]
Count = Annotated[int, Field(ge=0)]


def _is_measured(key: str) -> str:
    """Check that the key names a figure that references measure."""
    if key not in _KEYS:
        raise ValueError(f"is none of the figures that references measure: {', '.join(sorted(_KEYS))}")
    return key


_KEYS: Final = frozenset(figure.key for figure in COMPARED)
FigureKey = Annotated[str, AfterValidator(_is_measured)]
"""Key of a measured figure."""


class MeasurementPart(BaseModel):
    """Base of a measurement's parts: frozen, complete, with finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MeasuredFigure(MeasurementPart):
    """Value of a figure, with bounds unless too few requests passed through the window."""

    value: float
    lower: float | None = None
    upper: float | None = None
    standard_error: Annotated[float, Field(ge=0)] | None = None
    """Null for a quantile too."""
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
        """Return the figure of one engine, if this is the sum of ``number`` engines."""
        parts = {name: getattr(self, name) for name in ("value", "lower", "upper", "standard_error")}
        known = {name: part / number for name, part in parts.items() if part is not None}
        return MeasuredFigure(**known, degrees=self.degrees)

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
    """The upper bounds of the buckets, without the infinite bound of the last."""
    counts: tuple[Count, ...]
    """Number of observations up to each bound, and of all observations."""
    p50: MeasuredFigure | None
    p95: MeasuredFigure | None
    p99: MeasuredFigure | None

    @model_validator(mode="after")
    def _cumulative(self) -> Self:
        if len(self.counts) != len(self.bounds) + 1 or list(self.counts) != sorted(self.counts):
            raise ValueError("has counts that are not those of its bounds")
        return self

    @property
    def quantiles(self) -> dict[Quantile, MeasuredFigure | None]:
        """The quantiles that references have."""
        return {quantile: getattr(self, quantile.name) for quantile in LATENCY_QUANTILES}

    def edges(self, quantile: Quantile) -> Edges | None:
        """Return the edges of the bucket of a quantile; None for an empty histogram."""
        return edges(quantile.share, Buckets((*self.bounds, inf), self.counts))


class Measurement(MeasurementPart):
    """Measurement of one engine, or of several as one."""

    seconds: Annotated[float, Field(ge=0)]
    """Covered time in seconds."""
    polls: Count
    counts: Mapping[str, Count]
    """Increase of each counter; a counter that the engine does not have is absent."""
    position_accepted_tokens: tuple[Count, ...]
    """Accepted draft tokens at each of the K draft positions."""
    quantities: Mapping[FigureKey, MeasuredFigure]
    """The figures that have a value, by key."""
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


class MeasuredEngine(MeasurementPart):
    """One engine of one server."""

    target: Text
    model_name: Text
    engine: Text
    method: Text
    """vLLM's name of the method; empty, as the texts below, if unknown."""
    draft_model: Text
    server_version: Text
    restarts: Count
    """Number of counter resets during the measurement."""
    broken_checks: tuple[Text, ...]
    """Integrity checks of its counters that failed."""
    measurement: Measurement


class MeasuredModel(MeasurementPart):
    """Merged engines that serve a model with the same number of draft tokens."""

    model_name: Text
    engines: Annotated[int, Field(ge=1)]
    method: Text
    """Method of all engines; empty, as the texts below, if it is unknown or differs."""
    draft_model: Text
    server_version: Text
    measurement: Measurement

    @property
    def acceptance_ratio(self) -> float | None:
        """Acceptance rate, or None if it is unknown."""
        rate = self.measurement.quantities.get("draft_acceptance_ratio")
        return None if rate is None else rate.value

    @property
    def has_bounds(self) -> bool:
        """Return whether the acceptance rate has bounds."""
        rate = self.measurement.quantities.get("draft_acceptance_ratio")
        return rate is not None and rate.lower is not None


class ReferenceDocument(MeasurementPart):
    """A measurement of servers: its time, length, engines and models."""

    ended: AwareDatetime
    seconds: Annotated[float, Field(gt=0)]
    """Length of the measurement."""
    exporter_version: Text
    engines: tuple[MeasuredEngine, ...]
    models: tuple[MeasuredModel, ...]
    """Models in the order of their first engines."""
