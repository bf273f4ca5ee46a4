"""Detect changes in request findings: a mixed workload or requests below break-even, started or ended.

A change is emitted after ``PERSISTENCE_SECONDS``: findings about few requests fluctuate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.recurring import PersistenceFilter
from spec_decode_exporter.requests.cells import NO_SUMS, Effect, Sums
from spec_decode_exporter.requests.findings import GroupKey, RequestFindings

PERSISTENCE_SECONDS: Final = 60.0
"""A state must persist for this time before its event is emitted."""


class RequestChangeNotifier:
    """Emits an event when a model gets or loses a mixed workload, or a group falls below break-even."""

    def __init__(self) -> None:
        """Start without conditions: names of models, and keys of groups."""
        self._differing = PersistenceFilter[str | GroupKey]()
        self._emitted: set[str | GroupKey] = set()

    def emit(self, findings: RequestFindings, now: float) -> Iterator[tuple[str, Event]]:
        """Yield the model name and the event of each change at ``now`` (monotonic), in the longest window."""
        if not findings.windows:
            return
        label, window = max(findings.windows.items(), key=lambda item: item[1].seconds)
        sums: dict[str | GroupKey, Sums] = {each.model_name: each.summary for each in window.models}
        sums |= {each.key: each.summary for each in window.groups}
        conditions: set[str | GroupKey] = {each.model_name for each in window.models if each.mixed}
        conditions |= {each.key for each in window.groups if each.summary.effect is Effect.LOSES}
        changed = self._differing.confirmed(conditions ^ self._emitted, now, PERSISTENCE_SECONDS)
        self._emitted ^= changed
        for condition in sorted(changed, key=str):
            started, summary = condition in self._emitted, sums.get(condition, NO_SUMS)
            if isinstance(condition, GroupKey):
                yield condition.model_name, _group_event(label, condition, summary, started=started)
            else:
                yield condition, _mixture_event(label, summary, started=started)


def _mixture_event(window: str, sums: Sums, *, started: bool) -> Event:
    ratios = sums.acceptance_ratio
    fields: dict[str, object] = {
        "window": window,
        "requests": sums.requests,
        "mean_acceptance_ratio": _rounded(sums.mean_acceptance_ratio),
        "p10_acceptance_ratio": _rounded(ratios.p10 if ratios else None),
    }
    return Event("mixed_workload_began" if started else "mixed_workload_ended", fields)


def _group_event(window: str, key: GroupKey, sums: Sums, *, started: bool) -> Event:
    fields: dict[str, object] = {
        "request_type": key.request_type,
        "temperature": key.temperature,
        "window": window,
        "requests": sums.requests,
        "speedup_ratio": _rounded(sums.speedup_ratio and sums.speedup_ratio.value),
    }
    return Event("requests_below_break_even" if started else "requests_below_break_even_ended", fields)


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 3)
