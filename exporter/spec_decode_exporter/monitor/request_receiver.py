"""Single requests as they are sent to us: taken at a rate, counted, and what they say together found."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import Final

import structlog

from spec_decode_exporter.analysis.cost import Cost, CostSource
from spec_decode_exporter.config.request_settings import RequestSettings
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.internal_errors import NO_ITEM, InternalErrors
from spec_decode_exporter.core.token_bucket import TokenBucket
from spec_decode_exporter.monitor.event_log import EventLog
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.requests.change_notifier import RequestChangeNotifier
from spec_decode_exporter.requests.request import Refusal, Request
from spec_decode_exporter.requests.request_batch import Batch, read
from spec_decode_exporter.requests.request_findings import RequestFindings
from spec_decode_exporter.requests.request_store import RequestStore
from spec_decode_exporter.requests.window_findings import Costs

_TOLD_AGAIN_AFTER: Final = 60.0
"""Seconds from one line of the log about requests that are refused to the next."""
_SLICE: Final = 64
"""Requests that are counted in one go."""

_log = structlog.get_logger()


class RequestReceiver:
    """Takes requests by the configuration in force, and keeps what they say."""

    def __init__(
        self,
        settings: RequestSettings,
        fleet: Fleet,
        events: EventLog,
        clock: Clock,
        errors: InternalErrors | None = None,
    ) -> None:
        self._errors = errors or InternalErrors(clock.monotonic)
        self._fleet = fleet
        self._events = events
        self._clock = clock
        self._notifier = RequestChangeNotifier()
        self._refused: Counter[Refusal] = Counter()
        self._bodies = 0
        self._status: int | None = None
        self._told_at = -inf
        self._failing = False
        self._settings = settings
        self._board = RequestStore(settings, self._errors)
        self._bucket = self._new_bucket()

    @property
    def is_open(self) -> bool:
        """Whether requests are taken."""
        return self._settings.ingest

    def adopt(self, settings: RequestSettings) -> None:
        """Take requests by these settings from now on.

        What was counted goes on to count, unless the labels or the bounds are others: then all begins anew.
        """
        before, self._settings = self._settings, settings
        if settings.rate != before.rate:
            self._bucket = self._new_bucket()
        if _of_the_board(settings) != _of_the_board(before):
            self._board = RequestStore(settings, self._errors)
        elif settings.ingest and not before.ingest:
            self._board.go_on(self._clock.monotonic())

    async def take(
        self, body: bytes, *, lines: bool, unsent: Mapping[Refusal, int] = MappingProxyType({})
    ) -> Batch:
        """Read a body and count its requests; what is above the rate is left out and counted as refused.

        ``unsent`` counts the requests that the sender did not send since its last body, by reason. If all of
        a body is above the rate, nothing counts, ``unsent`` included: the body comes again.

        Raises:
            NotJsonError: see ``wire.read``, and so for the next.
            TooManyError: likewise.
        """
        board, users = self._board, self._settings.users
        batch = await read(body, lines=lines, salt=users.key if users else None)
        await self._count(board, batch)
        if not batch.above_the_rate:
            self._bodies += 1
            batch.refused += Counter(unsent)
            for reason, number in batch.refused.items():
                board.refuse(reason, number)
            self._tell_refused(batch.refused)
        return batch

    def turned_away(self, status: int) -> None:
        """Count a body of which nothing was taken, and which was answered with this status of HTTP."""
        self._board.refuse(Refusal.BODY)
        self._status = status
        self._tell_refused(Counter({Refusal.BODY: 1}))

    async def findings(self) -> RequestFindings:
        """Return what the requests say now, over the windows that are kept, and tell what is new of it."""
        if not self.is_open:
            return RequestFindings()
        try:
            found = await self._found()
        except Exception:  # noqa: BLE001  a defect in this must not take the engines' pages down
            if not self._failing:
                _log.exception("requests_failed")
            self._failing = True
            return replace(self._board.last, bodies=self._bodies)
        self._failing = False
        return found

    async def _found(self) -> RequestFindings:
        now = self._clock.monotonic()
        found = await self._board.findings(self._fleet.config.windows, now, costs_of(self._fleet))
        self._errors.attempt("request events", NO_ITEM, lambda: self._tell(found, now))
        return replace(found, enabled=True, bodies=self._bodies)

    def _tell(self, found: RequestFindings, now: float) -> None:
        for model_name, event in self._notifier.tell(found, now):
            self._events.record(event, self._clock.wall(), model_name=model_name)

    def _new_bucket(self) -> TokenBucket:
        rate = self._settings.rate
        return TokenBucket(rate, 1 / rate, self._clock.monotonic)

    async def _count(self, board: RequestStore, batch: Batch) -> None:
        watched = {watch.target.name for watch in self._fleet}
        for number, request in enumerate(batch.requests):
            if not self._bucket.take():
                batch.refused[Refusal.RATE] = len(batch.requests) - number
                del batch.requests[number:]
                break
            board.take(_placed(request, watched), self._clock.monotonic())
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)

    def _tell_refused(self, refused: Counter[Refusal]) -> None:
        """Say in the log how many are refused, once a minute at most: who sends them may go on for ever."""
        self._refused += refused
        now = self._clock.monotonic()
        if self._refused and now - self._told_at >= _TOLD_AGAIN_AFTER:
            _log.warning(
                "requests_refused",
                **{str(reason): self._refused[reason] for reason in Refusal},
                status=self._status,
            )
            self._refused.clear()
            self._status = None
            self._told_at = now


def _placed(request: Request, watched: AbstractSet[str]) -> Request:
    """Return a request whose target is kept only if it is watched: senders may name no end of others."""
    return request if request.target in watched or not request.target else replace(request, target="")


def costs_of(fleet: Fleet) -> Costs:
    """Return what drafting costs now, by model and target: as each engine was judged last.

    A target that is not watched, or has no engine of that name, counts as any: a gateway may call it
    otherwise. Of several engines it is the mean of those whose cost is known the most surely. One that is
    known for another load than the present one is no surer than what the method usually costs.
    """
    known: defaultdict[tuple[str, str], list[Cost]] = defaultdict(list)
    for watch in fleet:
        for model_name, cost, is_sure in watch.costs():
            own = cost if is_sure else replace(cost, source=CostSource.DEFAULT, running_requests=None)
            known[model_name, watch.target.name].append(own)
            known[model_name, ""].append(own)
    means = {place: _mean(costs) for place, costs in known.items()}
    return lambda model_name, target: means.get((model_name, target)) or means.get((model_name, ""))


def _mean(costs: Sequence[Cost]) -> Cost:
    surest = min((cost.source for cost in costs), key=list(CostSource).index)
    chosen = [cost for cost in costs if cost.source is surest]
    if len(chosen) == 1:
        return chosen[0]
    return Cost(
        sum(cost.draft_cost_ratio for cost in chosen) / len(chosen),
        sum(cost.fixed_cost_ratio for cost in chosen) / len(chosen),
        surest,
        running_requests=None,
    )


def _of_the_board(settings: RequestSettings) -> RequestSettings:
    """Return the settings without those that the board does not go by."""
    return settings.model_copy(update={"ingest": True, "rate": 1})
