"""Detect changes in request findings: a mixed workload or requests below break-even, started or ended.

A change is emitted after ``PERSISTENCE_SECONDS``: findings about few requests fluctuate.
"""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.recurring import PersistenceFilter
from spec_decode_exporter.requests.findings import RequestFindings
from spec_decode_exporter.requests.summary import Effect, GroupKey, RequestSummary

PERSISTENCE_SECONDS: Final = 60.0
"""A state must persist for this time before its event is emitted."""


class RequestChangeNotifier:
    """Emits an event when a model gets or loses a mixed workload, or a group falls below break-even."""

    def __init__(self) -> None:
        """Start without conditions: names of models, and keys of groups."""
        self._differing = PersistenceFilter[str | GroupKey]()
        self._emitted: set[str | GroupKey] = set()

    def changes(self, findings: RequestFindings, now: float) -> list[tuple[str, Event]]:
        """Return the model name and the event of each change of the longest window at ``now`` (monotonic)."""
        if not findings.windows:
            return []
        label, window = max(findings.windows.items(), key=lambda item: item[1].seconds)
        summaries: dict[str | GroupKey, RequestSummary] = {
            each.model_name: each.summary for each in window.models
        }
        summaries |= {each.key: each.summary for each in window.groups}
        conditions: set[str | GroupKey] = {each.model_name for each in window.models if each.mixed}
        conditions |= {each.key for each in window.groups if each.summary.effect is Effect.LOSES}
        changed = self._differing.confirmed(conditions ^ self._emitted, now, PERSISTENCE_SECONDS)
        self._emitted ^= changed
        changes = []
        for condition in sorted(changed, key=str):
            summary, began = summaries.get(condition, RequestSummary()), condition in self._emitted
            if isinstance(condition, GroupKey):
                changes.append((condition.model_name, _group_event(label, condition, summary, began=began)))
            else:
                changes.append((condition, _mixture_event(label, summary, began=began)))
        return changes


def _mixture_event(window: str, summary: RequestSummary, *, began: bool) -> Event:
    ratios = summary.acceptance_ratio
    fields: dict[str, object] = {
        "window": window,
        "requests": summary.requests,
        "mean_acceptance_ratio": _rounded(summary.mean_acceptance_ratio),
        "p10_acceptance_ratio": _rounded(ratios.p10 if ratios else None),
    }
    return Event("mixed_workload_began" if began else "mixed_workload_ended", fields)


def _group_event(window: str, key: GroupKey, summary: RequestSummary, *, began: bool) -> Event:
    fields: dict[str, object] = {
        "request_type": key.request_type,
        "temperature": key.temperature,
        "window": window,
        "requests": summary.requests,
        "speedup_ratio": _rounded(summary.speedup_ratio and summary.speedup_ratio.value),
    }
    return Event("requests_below_break_even" if began else "requests_below_break_even_ended", fields)


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 3)
