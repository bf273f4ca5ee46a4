"""Sums of requests by model, target and type since the exporter's start, for comparisons at equal traffic.

A type is a request type at a temperature. ``RequestLabels`` bounds the number of models and types.
"""

from __future__ import annotations

from collections.abc import Mapping

from spec_decode_exporter.analysis.drops.mix import TypeSums
from spec_decode_exporter.requests.request_findings import GroupKey
from spec_decode_exporter.requests.request_record import RequestRecord

_NONE = TypeSums(0.0, 0.0)


class RequestTypes:
    """Growing sums of drafts and accepted tokens by type."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], dict[str, TypeSums]] = {}

    def add(self, key: GroupKey, request: RequestRecord) -> None:
        """Count a request of a group; an empty target is any target that serves the model."""
        sums = self._sums.setdefault((key.model_name, request.target), {})
        name = f"{key.request_type} {key.temperature}"
        before = sums.get(name, _NONE)
        sums[name] = TypeSums(before.drafts + request.drafts, before.accepted + request.accepted_tokens)

    def totals(self, model_name: str, target: str) -> Mapping[str, TypeSums]:
        """Return the sums by type of a model at a target, or of the model if no request names targets."""
        return self._sums.get((model_name, target)) or self._sums.get((model_name, ""), {})
