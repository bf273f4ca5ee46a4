"""What all requests of one model say, and what their mean hides."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.requests.findings import GroupFindings, ModelFindings
from exporter.requests.summary import summary
from exporter.requests.sums import Sums


def model_findings(model_name: str, sums: Sums, groups: Sequence[GroupFindings]) -> ModelFindings:  # noqa: ARG001
    """Return what the requests of a model say, of which ``groups`` are all."""
    return ModelFindings(model_name, summary(sums), None, mixed=False, advice=[])
