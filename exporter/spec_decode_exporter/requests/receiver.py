"""Receive single requests: limit their rate, count them, evaluate them, and log refusals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from math import inf
from types import MappingProxyType
from typing import Final

import structlog
from msgspec.structs import replace as with_fields

from spec_decode_exporter.config.schema import RequestSettings
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.isolation import Isolation
from spec_decode_exporter.core.recurring import TokenBucket
from spec_decode_exporter.core.tasks import Pace
from spec_decode_exporter.costs.cost import CostRange, CostSource
from spec_decode_exporter.experiments.pace import ArmTypes
from spec_decode_exporter.requests.record import SLICE, Batch, Refusal, read
from spec_decode_exporter.requests.store import RequestFindings, RequestStore

_LOG_INTERVAL: Final = 60.0  # seconds between two log lines about refused requests

_COST_SECONDS: Final = 1.0
"""Age up to which costs of drafting are used: reading those of all engines takes longer than a request."""

TargetCosts = Iterable[tuple[str, Iterable[tuple[str, CostRange]]]]
"""Names of targets, each with the model name and the cost of its engines with a known cost."""
Costs = Callable[[str, str], CostRange | None]
"""Cost of drafting now, by model name and target name; an empty target is any target."""

_log = structlog.get_logger()


class RequestReceiver:
    """Takes requests with constant settings, and holds the store: other settings need another receiver."""

    def __init__(
        self,
        settings: RequestSettings,
        targets: Callable[[], TargetCosts],
        clock: Clock,
        errors: Isolation | None = None,
    ) -> None:
        """Begin without requests; ``targets`` returns the targets of the exporter with their costs."""
        self.settings = settings
        self._targets, self._clock = targets, clock
        self._errors = errors or Isolation(clock.monotonic)
        self._refused: Counter[Refusal] = Counter()
        self._status: int | None = None
        self._logged_at = self._costs_at = -inf
        self._costs: Costs = costs_of(())
        self._store = RequestStore(settings, self._errors)
        self._bucket = TokenBucket(settings.rate, 1 / settings.rate, clock.monotonic)

    async def take(
        self, body: bytes, *, lines: bool, unsent: Mapping[Refusal, int] = MappingProxyType({})
    ) -> Batch:
        """Read a body and count its requests; those above the rate are counted as refused.

        ``unsent`` counts the requests that the sender has not sent since its last body, by reason. If the
        whole body is above the rate, nothing counts, not even ``unsent``: the sender sends the body again.

        Raises:
            NotJsonError: See ``record.read``.
            TooManyValuesError: See ``record.read``.
        """
        users = self.settings.users
        batch = await read(body, lines=lines, salt=users.key if users else None)
        await self._count(batch)
        if not batch.above_the_rate:
            batch.refused += Counter(unsent)
            for reason, number in batch.refused.items():
                self._store.refuse(reason, number)
            self._log_refused(batch.refused)
        return batch

    def reject_body(self, status: int) -> None:
        """Count a body that was rejected as a whole with this HTTP status."""
        self._store.refuse(Refusal.BODY)
        self._status = status
        self._log_refused(Counter({Refusal.BODY: 1}))

    async def findings(self, windows: Sequence[float]) -> RequestFindings:
        """Return the present findings, in windows of these seconds."""
        if not self.settings.ingest:
            return RequestFindings()
        evaluate = partial(self._store.findings, windows, self._clock.monotonic())
        return await self._errors.attempt_async("requests", evaluate) or self._store.last

    def times(self, model_name: str, target: str, begin: float, end: float) -> ArmTypes:
        """Return the times by type of a target's requests: see ``RequestStore``."""
        return self._store.times(model_name, target, begin, end)

    async def _count(self, batch: Batch) -> None:
        targets, pace = {name for name, _ in self._targets()}, Pace(SLICE)
        for number, sent in enumerate(batch.requests):
            if not self._bucket.take():
                batch.refused[Refusal.RATE] = len(batch.requests) - number
                del batch.requests[number:]
                break
            # Senders may name any number of targets that the exporter does not have.
            is_unknown = sent.target and sent.target not in targets
            request = with_fields(sent, target="") if is_unknown else sent
            now = self._clock.monotonic()
            if now - self._costs_at >= _COST_SECONDS:
                self._costs, self._costs_at = costs_of(self._targets()), now
            self._store.take(request, now, self._costs(request.model_name, request.target))
            await pace.done()

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


def costs_of(targets: TargetCosts) -> Costs:
    """Return the cost of drafting by model and target, from the last evaluation of each engine.

    An unknown target, or one without an engine of that model, counts as any: a gateway may use other names.
    The cost of several engines is the middle one of those with the most certain source, within all intervals.
    """
    costs: defaultdict[tuple[str, str], list[CostRange]] = defaultdict(list)
    for name, of_target in targets:
        for model_name, cost in of_target:
            costs[model_name, name].append(cost)
            costs[model_name, ""].append(cost)
    known = {key: _combined(several) for key, several in costs.items()}
    return lambda model_name, target: known.get((model_name, target)) or known.get((model_name, ""))


def _combined(costs: Sequence[CostRange]) -> CostRange:
    source = min((cost.source for cost in costs), key=list(CostSource).index)
    chosen = sorted((cost for cost in costs if cost.source is source), key=lambda cost: cost.guess)
    return reduce(CostRange.spanning, chosen, chosen[len(chosen) // 2])
