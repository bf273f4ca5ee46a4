"""A snapshot as JSON: each engine with its judgement, the findings behind it, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from exporter.analysis import acceptance, positions, speedup
from exporter.analysis.cost import Cost
from exporter.analysis.drops import DropStatus
from exporter.analysis.engine import Findings
from exporter.analysis.estimate import Estimate
from exporter.analysis.judgement import Bounds
from exporter.export.collector import Snapshot
from exporter.export.reads import window_label
from exporter.window.ledger import Window


def document(snapshot: Snapshot) -> dict[str, Any]:
    """Return what a snapshot says of its engines, in a form that JSON can hold; unknown is null."""
    return {"engines": [_engine(labels, findings) for labels, findings in snapshot.engines]}


def _engine(labels: Mapping[str, str], findings: Findings) -> dict[str, Any]:
    judgement, known = findings.judgement, findings.speculation
    return {
        "labels": dict(labels),
        "method": known.method,
        "method_source": known.source,
        "draft_model": known.draft_model,
        "configured_tokens": findings.tokens or None,
        "state": str(judgement.state),
        "verdict": str(judgement.verdict),
        "recommendation": str(judgement.action),
        "recommended_tokens": judgement.recommended.tokens if judgement.recommended else None,
        "findings": [asdict(finding) for finding in judgement.findings],
        "cost": asdict(judgement.cost) if judgement.cost else None,
        "crossover_running_requests": judgement.crossover,
        "depths": [asdict(depth) for depth in judgement.depths],
        "windows": list(_windows(findings)),
        "drops": _drops(findings.drops),
        "broken_checks": sorted(map(str, findings.broken)),
    }


def _windows(findings: Findings) -> Iterator[dict[str, Any]]:
    judgement = findings.judgement
    for window, bounds, cost in zip(findings.windows, judgement.bounds, judgement.costs, strict=False):
        yield _window(window, bounds, cost)


def _window(window: Window, bounds: Bounds, cost: Cost | None) -> dict[str, Any]:
    value = None if cost is None else speedup.estimated_speedup_ratio(window, cost)
    return {
        "window": window_label(window),
        "seconds": window.seconds,
        "draft_acceptance_ratio": _sure(acceptance.draft_acceptance_ratio(window), bounds.acceptance_ratio),
        "acceptance_length_tokens": _sure(
            acceptance.acceptance_length_tokens(window), bounds.acceptance_length
        ),
        "estimated_speedup_ratio": _sure(value, bounds.speedup),
        "speedup_ceiling_ratio": speedup.speedup_ceiling_ratio(window),
        "position_acceptance_ratio": positions.position_acceptance_ratios(window),
    }


def _sure(value: float | None, estimate: Estimate | None) -> dict[str, float | None]:
    """Return a value with its 95 % bounds, each null where there is none."""
    return {
        "value": value,
        "lower": estimate.lower if estimate else None,
        "upper": estimate.upper if estimate else None,
    }


def _drops(drops: DropStatus) -> dict[str, Any]:
    return {
        "baseline_acceptance_length_tokens": drops.baseline_length,
        "sigma": drops.sigma,
        "dropped": {str(kind): is_so for kind, is_so in drops.dropped.items()},
        "total": {str(kind): count for kind, count in drops.drops.items()},
    }
