"""A comparison for programs: JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spec_decode_exporter.analysis.comparison.comparison import Comparison
from spec_decode_exporter.analysis.comparison.difference import Difference
from spec_decode_exporter.reports.reference import comparison_text
from spec_decode_exporter.reports.reference.pairing import Compared, ModelPair
from spec_decode_exporter.reports.reference.reference_document import (
    MeasuredEngine,
    MeasuredModel,
    ReferenceDocument,
)

_LABELS = ("target", "model_name", "engine", "engines", "method", "draft_model", "server_version")


def as_json(compared: Compared) -> str:
    """Return a comparison as JSON. Ratios are between 0 and 1, times in seconds; unknown is null."""
    return json.dumps(
        {
            "outcome": compared.outcome,
            "threshold": compared.threshold,
            "before": _measured(compared.before),
            "after": _measured(compared.after),
            "models": [_model(pair) for pair in compared.models],
            "only_before": [_described(model) for model in compared.gone],
            "only_after": [_described(model) for model in compared.new],
            "doubts": [
                *comparison_text.troubles(compared.before.engines, "while the reference was measured"),
                *comparison_text.troubles(compared.after.engines, "meanwhile"),
            ],
        },
        indent=1,
        allow_nan=False,
    )


def _measured(document: ReferenceDocument) -> dict[str, Any]:
    return document.model_dump(mode="json", exclude={"engines", "models"})


def _model(pair: ModelPair) -> dict[str, Any]:
    engines = [_pair(each.before, each.after, each.comparison) for each in pair.engines]
    return {**_pair(pair.before, pair.after, pair.comparison), "engines": engines}


def _pair(
    before: MeasuredModel | MeasuredEngine, after: MeasuredModel | MeasuredEngine, comparison: Comparison
) -> dict[str, Any]:
    return {
        "outcome": comparison.outcome,
        "text": comparison_text.verdict(comparison),
        "before": _described(before),
        "after": _described(after),
        "cautions": [
            {
                "reason": found.reason,
                "before": found.before,
                "after": found.after,
                "text": comparison_text.caution(found),
            }
            for found in comparison.cautions
        ],
        "quantities": {name: _difference(found) for name, found in comparison.quantities.items()},
        "position_acceptance_ratio": list(map(_difference, comparison.positions)),
        "position_conditional_acceptance_ratio": list(map(_difference, comparison.conditional)),
        "latency_seconds": _latencies(comparison),
    }


def _described(what: MeasuredModel | MeasuredEngine) -> dict[str, Any]:
    described = {label: getattr(what, label) for label in _LABELS if hasattr(what, label)}
    return {**described, "draft_tokens": what.measurement.tokens, "counts": dict(what.measurement.counts)}


def _difference(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "before": found.before.model_dump(),
        "after": found.after.model_dump(),
        "change": found.change,
        "lower": found.lower,
        "upper": found.upper,
        "beyond_chance": found.is_beyond_chance if found.lower is not None else None,
    }


def _latencies(comparison: Comparison) -> Mapping[str, dict[str, Any]]:
    latencies: dict[str, dict[str, Any]] = {}
    for (latency, percentile), found in comparison.latencies.items():
        latencies.setdefault(latency, {})[percentile] = _difference(found)
    return latencies
