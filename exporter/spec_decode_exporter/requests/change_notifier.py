"""Detect changes in request findings: a mixed workload or requests below break-even, started or ended.

A change is emitted after ``PERSISTENCE_SECONDS``: findings about few requests fluctuate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.recurring import PersistenceFilter
from spec_decode_exporter.requests.request_findings import (
    Effect,
    GroupFindings,
    GroupKey,
    ModelFindings,
    RequestFindings,
)

PERSISTENCE_SECONDS: Final = 60.0
"""A state must persist for this time before its event is emitted."""

_Condition = str | GroupKey
"""The model with this name has a mixed workload, or the group with this key is below break-even."""


class RequestChangeNotifier:
    """Emits an event when a condition starts or ends."""

    def __init__(self) -> None:
        """Start without conditions."""
        self._differing = PersistenceFilter[_Condition]()
        self._emitted: set[_Condition] = set()

    def emit(self, findings: RequestFindings, now: float) -> Iterator[tuple[str, Event]]:
        """Yield the model name and the event of each change at ``now`` (monotonic), in the longest window."""
        if not findings.windows:
            return
        label, window = max(findings.windows.items(), key=lambda item: item[1].seconds)
        models = {each.model_name: each for each in window.models}
        groups = {each.key: each for each in window.groups}
        conditions: set[_Condition] = {name for name, model in models.items() if model.mixed}
        conditions |= {key for key, group in groups.items() if group.effect is Effect.LOSES}
        changed = self._differing.confirmed(conditions ^ self._emitted, now, PERSISTENCE_SECONDS)
        self._emitted ^= changed
        for condition in sorted(changed, key=str):
            started = condition in self._emitted
            if isinstance(condition, GroupKey):
                group = groups.get(condition)
                yield condition.model_name, _group_event(label, condition, group, started=started)
            else:
                yield condition, _mixture_event(label, models.get(condition), started=started)


def _mixture_event(window: str, model: ModelFindings | None, *, started: bool) -> Event:
    summary = model.summary if model else None
    fields: dict[str, object] = {
        "window": window,
        "requests": summary.totals.requests if summary else 0,
        "mean_acceptance_ratio": _rounded(summary.mean_acceptance_ratio if summary else None),
        "p10_acceptance_ratio": _rounded(
            summary.acceptance_ratio.p10 if summary and summary.acceptance_ratio else None
        ),
    }
    name = "mixed_workload_began" if started else "mixed_workload_ended"
    return Event(name, fields)


def _group_event(window: str, key: GroupKey, group: GroupFindings | None, *, started: bool) -> Event:
    speedup = group.summary.speedup_ratio if group else None
    fields: dict[str, object] = {
        "request_type": key.request_type,
        "temperature": key.temperature,
        "window": window,
        "requests": group.summary.totals.requests if group else 0,
        "speedup_ratio": _rounded(speedup.value if speedup else None),
    }
    name = "requests_below_break_even" if started else "requests_below_break_even_ended"
    return Event(name, fields)


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 3)
