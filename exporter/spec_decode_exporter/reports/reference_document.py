"""Content of a reference file."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from spec_decode_exporter.experiments.measurement import Count, Measurement, MeasurementPart

Text = Annotated[str, Field(max_length=4096)]


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
