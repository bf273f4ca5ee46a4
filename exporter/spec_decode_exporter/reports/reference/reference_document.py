"""What a reference file holds."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field

from spec_decode_exporter.analysis.comparison.measurement import Count, Measurement, MeasurementPart

Text = Annotated[str, Field(max_length=4096)]


class MeasuredEngine(MeasurementPart):
    """One engine of one server."""

    target: Text
    model_name: Text
    engine: Text
    method: Text
    """As vLLM calls it; empty, as the texts below, where nobody says."""
    draft_model: Text
    server_version: Text
    restarts: Count
    """How often its counters began anew meanwhile."""
    broken_checks: tuple[Text, ...]
    """Identities of its counters that did not hold."""
    measurement: Measurement


class MeasuredModel(MeasurementPart):
    """All engines that serve a model with the same number of draft tokens, as one."""

    model_name: Text
    engines: Annotated[int, Field(ge=1)]
    method: Text
    """Of all of them; empty, as the texts below, where it is not known or not the same."""
    draft_model: Text
    server_version: Text
    measurement: Measurement

    @property
    def acceptance_ratio(self) -> float | None:
        """The acceptance rate."""
        found = self.measurement.quantities.get("draft_acceptance_ratio")
        return None if found is None else found.value

    @property
    def is_sure(self) -> bool:
        """Whether the acceptance rate has bounds."""
        found = self.measurement.quantities.get("draft_acceptance_ratio")
        return found is not None and found.lower is not None


class ReferenceDocument(MeasurementPart):
    """What was measured, when, and for how long."""

    ended: AwareDatetime
    seconds: Annotated[float, Field(gt=0)]
    """How long it was measured."""
    exporter_version: Text
    engines: tuple[MeasuredEngine, ...]
    models: tuple[MeasuredModel, ...]
    """In the order of their first engines."""
