"""What is new in what the requests say: a mix that begins or ends, requests that begin to lose.

Each is told once it has stood for a while, so that nothing flickers: requests are few at times.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from spec_decode_exporter.core.debounce import Debounce
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.requests.request_findings import (
    Effect,
    GroupFindings,
    GroupKey,
    ModelFindings,
    RequestFindings,
)

STANDS_AFTER: Final = 60.0
"""Seconds for which something must be so before it is told."""

_Claim = str | GroupKey
"""That this model's workload is mixed, or that this group loses."""


class RequestChangeNotifier:
    """Remembers what was told."""

    def __init__(self) -> None:
        """Begin with nothing mixed, and nothing that loses."""
        self._held: dict[_Claim, Debounce[bool]] = {}
        self._told: set[_Claim] = set()

    def tell(self, findings: RequestFindings, now: float) -> Iterator[tuple[str, Event]]:
        """Yield the names of models and what is new of them at ``now`` (monotonic), by the longest window."""
        if not findings.windows:
            return
        window, found = max(findings.windows.items(), key=lambda item: item[1].seconds)
        models = {each.model_name: each for each in found.models}
        groups = {each.key: each for each in found.groups}
        claims: set[_Claim] = {name for name, model in models.items() if model.mixed}
        claims |= {key for key, group in groups.items() if group.effect is Effect.LOSES}
        for claim in self._changed(claims, now):
            is_so = claim in self._told
            if isinstance(claim, GroupKey):
                yield claim.model_name, _group_event(window, claim, groups.get(claim), loses=is_so)
            else:
                yield claim, _mix_event(window, models.get(claim), is_mixed=is_so)

    def _changed(self, claims: AbstractSet[_Claim], now: float) -> list[_Claim]:
        """Return the claims that hold now and were not told, and those that were and hold no more."""
        changed = []
        for claim in sorted(claims | self._held.keys(), key=str):
            held = self._held.get(claim) or self._held.setdefault(claim, _not_yet(now))
            is_so = held.offer(claim in claims, now)
            if is_so != (claim in self._told):
                self._told ^= {claim}
                changed.append(claim)
            if not is_so and claim not in claims:
                del self._held[claim]
        return changed


def _not_yet(now: float) -> Debounce[bool]:
    held: Debounce[bool] = Debounce(STANDS_AFTER)
    held.offer(False, now)
    return held


def _mix_event(window: str, model: ModelFindings | None, *, is_mixed: bool) -> Event:
    said = model.summary if model else None
    fields: dict[str, object] = {
        "window": window,
        "requests": said.totals.requests if said else 0,
        "mean_acceptance_ratio": _rounded(said.mean_acceptance_ratio if said else None),
        "p10_acceptance_ratio": _rounded(
            said.acceptance_ratio.p10 if said and said.acceptance_ratio else None
        ),
    }
    name = "mixed_workload_began" if is_mixed else "mixed_workload_ended"
    return Event(name, fields, is_bad=is_mixed)


def _group_event(window: str, key: GroupKey, group: GroupFindings | None, *, loses: bool) -> Event:
    speedup = group.summary.speedup_ratio if group else None
    fields: dict[str, object] = {
        "request_type": key.request_type,
        "temperature": key.temperature,
        "window": window,
        "requests": group.summary.totals.requests if group else 0,
        "speedup_ratio": _rounded(speedup.value if speedup else None),
    }
    name = "requests_below_break_even" if loses else "requests_below_break_even_ended"
    return Event(name, fields, is_bad=loses)


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 3)
