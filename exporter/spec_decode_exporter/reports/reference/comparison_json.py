"""Write a comparison as JSON, for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spec_decode_exporter.reports.reference import comparison_text
from spec_decode_exporter.reports.reference.comparison import Comparison, Difference
from spec_decode_exporter.reports.reference.pairing import Compared, ModelPair
from spec_decode_exporter.reports.reference_document import (
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
            "doubts": list(comparison_text.doubts(compared)),
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
                "reason": caution.reason,
                "before": caution.before,
                "after": caution.after,
                "text": comparison_text.caution(caution),
            }
            for caution in comparison.cautions
        ],
        "quantities": {name: _difference(each) for name, each in comparison.quantities.items()},
        "position_acceptance_ratio": list(map(_difference, comparison.positions)),
        "position_conditional_acceptance_ratio": list(map(_difference, comparison.conditional)),
        "latency_seconds": _latencies(comparison),
    }


def _described(measured: MeasuredModel | MeasuredEngine) -> dict[str, Any]:
    described = {label: getattr(measured, label) for label in _LABELS if hasattr(measured, label)}
    return {
        **described,
        "draft_tokens": measured.measurement.tokens,
        "counts": dict(measured.measurement.counts),
    }


def _difference(difference: Difference | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    return {
        "before": difference.before.model_dump(),
        "after": difference.after.model_dump(),
        "change": difference.change,
        "lower": difference.lower,
        "upper": difference.upper,
        "beyond_chance": difference.is_beyond_chance if difference.lower is not None else None,
    }


def _latencies(comparison: Comparison) -> Mapping[str, dict[str, Any]]:
    latencies: dict[str, dict[str, Any]] = {}
    for (latency, quantile), difference in comparison.latencies.items():
        latencies.setdefault(latency, {})[quantile.name] = _difference(difference)
    return latencies
