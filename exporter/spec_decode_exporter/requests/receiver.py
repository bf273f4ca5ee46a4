"""Receive single requests: limit their rate, count them, evaluate them, and log refusals and changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial, reduce
from math import inf
from types import MappingProxyType
from typing import Final, Protocol

import structlog
from msgspec.structs import replace as with_fields

from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.isolation import NO_ITEM, Isolation
from spec_decode_exporter.core.recurring import PersistenceFilter, TokenBucket
from spec_decode_exporter.core.tasks import Pace
from spec_decode_exporter.costs.cost import CostRange, CostSource
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.experiments.pace import ArmTypes
from spec_decode_exporter.requests.findings import RequestFindings
from spec_decode_exporter.requests.record import Batch, Refusal, RequestRecord, read
from spec_decode_exporter.requests.store import RequestStore
from spec_decode_exporter.requests.summary import Effect, GroupKey, RequestSummary

_LOG_INTERVAL: Final = 60.0
"""Seconds between two log lines about refused requests."""
_SLICE: Final = 64
"""Requests that are counted between two yields to the event loop."""

PERSISTENCE_SECONDS: Final = 60.0
"""A state must persist for this time before its event is emitted."""
_COST_SECONDS: Final = 1.0
"""Age up to which costs of drafting are used: reading those of all engines takes longer than a request."""

Costs = Callable[[str, str], CostRange | None]
"""Cost of drafting now, by model name and target name; an empty target is any target."""

_log = structlog.get_logger()


class MonitoredTarget(Protocol):
    """Target of the exporter, and the costs of drafting of its engines."""

    @property
    def target(self) -> Target:
        """Its name is that which senders may state."""

    def costs(self) -> Iterable[tuple[str, CostRange]]:
        """Return the model name and the cost of each engine with a known cost."""


class RequestReceiver:
    """Takes requests according to the present configuration, and holds the store."""

    def __init__(
        self,
        settings: RequestSettings,
        targets: Iterable[MonitoredTarget],
        clock: Clock,
        errors: Isolation | None = None,
    ) -> None:
        """Take requests if the ``settings`` say so; ``targets`` have the costs of drafting."""
        self._targets, self._clock = targets, clock
        self._errors = errors or Isolation(clock.monotonic)
        self._notifier = RequestChangeNotifier()
        self._refused: Counter[Refusal] = Counter()
        self._status: int | None = None
        self._logged_at = -inf
        self._settings = settings
        self._store = RequestStore(settings, self._errors)
        self._bucket = self._new_bucket()
        self._costs: Costs = lambda _model_name, _target: None
        self._costs_at = -inf

    @property
    def is_open(self) -> bool:
        """``requests.ingest``: true if requests are taken."""
        return self._settings.ingest

    def adopt(self, settings: RequestSettings) -> None:
        """Use these settings from now on.

        Counted requests remain, unless the labels or the limits change: then the store is empty again.
        """
        before, self._settings = self._settings, settings
        if settings.rate != before.rate:
            self._bucket = self._new_bucket()
        if _store_settings(settings) != _store_settings(before):
            self._store = RequestStore(settings, self._errors)
        elif settings.ingest and not before.ingest:
            self._store.resume(self._clock.monotonic())

    async def take(
        self, body: bytes, *, lines: bool, unsent: Mapping[Refusal, int] = MappingProxyType({})
    ) -> Batch:
        """Read a body and count its requests; those above the rate are counted as refused.

        ``unsent`` counts the requests that the sender has not sent since its last body, by reason. If the
        whole body is above the rate, nothing counts, not even ``unsent``: the sender sends the body again.

        Raises:
            NotJsonError: See ``record.read``.
            TooManyError: See ``record.read``.
        """
        store, users = self._store, self._settings.users
        batch = await read(body, lines=lines, salt=users.key if users else None)
        await self._count(store, batch)
        if not batch.above_the_rate:
            batch.refused += Counter(unsent)
            for reason, number in batch.refused.items():
                store.refuse(reason, number)
            self._log_refused(batch.refused)
        return batch

    def reject_body(self, status: int) -> None:
        """Count a body that was rejected as a whole with this HTTP status."""
        self._store.refuse(Refusal.BODY)
        self._status = status
        self._log_refused(Counter({Refusal.BODY: 1}))

    async def findings(self, windows: Sequence[float]) -> RequestFindings:
        """Return the present findings, in windows of these seconds."""
        if not self.is_open:
            return RequestFindings()
        evaluate = partial(self._store.findings, windows, self._clock.monotonic())
        current = await self._errors.attempt_async("requests", evaluate)
        return replace(current or self._store.last, enabled=True)

    def changes(self, findings: RequestFindings) -> Sequence[tuple[str, Event]]:
        """Return the model name and the event of each change since the last call."""
        changes = partial(self._notifier.changes, findings, self._clock.monotonic())
        return self._errors.attempt("request events", NO_ITEM, changes) or ()

    def times(self, model_name: str, target: str, begin: float, end: float) -> ArmTypes:
        """Return the times by type of a target's requests: see ``RequestStore``."""
        return self._store.times(model_name, target, begin, end)

    def _new_bucket(self) -> TokenBucket:
        return TokenBucket(rate := self._settings.rate, 1 / rate, self._clock.monotonic)

    async def _count(self, store: RequestStore, batch: Batch) -> None:
        targets, pace = {monitored.target.name for monitored in self._targets}, Pace(_SLICE)
        for number, request in enumerate(batch.requests):
            if not self._bucket.take():
                batch.refused[Refusal.RATE] = len(batch.requests) - number
                del batch.requests[number:]
                break
            placed = _with_known_target(request, targets)
            now = self._clock.monotonic()
            cost = self._costs_now(now)(placed.model_name, placed.target)
            store.take(placed, now, cost)
            await pace.done()

    def _costs_now(self, now: float) -> Costs:
        if now - self._costs_at >= _COST_SECONDS:
            self._costs, self._costs_at = costs_of(self._targets), now
        return self._costs

    def _log_refused(self, refused: Counter[Refusal]) -> None:
        """Log the refused requests at most once a minute: a sender may repeat its mistake."""
        self._refused += refused
        now = self._clock.monotonic()
        if self._refused and now - self._logged_at >= _LOG_INTERVAL:
            _log.warning(
                "requests_refused",
                **{str(reason): self._refused[reason] for reason in Refusal},
                status=self._status,
            )
            self._refused.clear()
            self._status = None
            self._logged_at = now


def _with_known_target(request: RequestRecord, targets: AbstractSet[str]) -> RequestRecord:
    """Clear the target unless it is one of the exporter's: senders may name any number of others."""
    return request if request.target in targets or not request.target else with_fields(request, target="")


def costs_of(targets: Iterable[MonitoredTarget]) -> Costs:
    """Return the cost of drafting by model and target, from the last evaluation of each engine.

    An unknown target, or one without an engine of that model, counts as any: a gateway may use other names.
    The cost of several engines is the middle one of those with the most certain source, within all intervals.
    """
    costs: defaultdict[tuple[str, str], list[CostRange]] = defaultdict(list)
    for monitored in targets:
        for model_name, cost in monitored.costs():
            costs[model_name, monitored.target.name].append(cost)
            costs[model_name, ""].append(cost)
    known = {key: _combined(several) for key, several in costs.items()}
    return lambda model_name, target: known.get((model_name, target)) or known.get((model_name, ""))


def _combined(costs: Sequence[CostRange]) -> CostRange:
    source = min((cost.source for cost in costs), key=list(CostSource).index)
    chosen = sorted((cost for cost in costs if cost.source is source), key=lambda cost: cost.guess)
    return reduce(CostRange.spanning, chosen, chosen[len(chosen) // 2])


def _store_settings(settings: RequestSettings) -> RequestSettings:
    """Return the settings that the store depends on; the others have constant values."""
    return settings.model_copy(update={"ingest": True, "rate": 1})


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
        summaries: dict[str | GroupKey, RequestSummary] = {each.key: each.summary for each in window.groups}
        summaries |= {each.model_name: each.summary for each in window.models}
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
