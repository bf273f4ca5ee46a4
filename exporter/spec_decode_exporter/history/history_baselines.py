"""Baselines from histories: read at the start and once a day, beside the polls."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final, TypeVar

from spec_decode_exporter.config.comparison_settings import PrometheusSettings
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.urls import without_query
from spec_decode_exporter.history.baseline_reader import MAX_BODY, BaselineReader, FoundBaseline, server_of
from spec_decode_exporter.history.query_api import TIMEOUT, HistoryError, QueryApi
from spec_decode_exporter.monitor.fleet import Fleet
from spec_decode_exporter.monitor.target_monitor import TargetMonitor
from spec_decode_exporter.scrape.client import Client

CHECK_SECONDS: Final = 5.0  # seconds between two looks for targets whose history is due
READ_AGAIN_SECONDS: Final = 86_400.0
TRY_AGAIN_SECONDS: Final = 3600.0  # seconds after a failure
MAX_READING_SECONDS: Final = 600.0
"""Maximum seconds of the reading of one target, and of the search for the servers of a history."""

Connect = Callable[[PrometheusSettings], Client]
T = TypeVar("T")


def open_client(settings: PrometheusSettings) -> Client:
    """Return a client for queries, with their limits."""
    return Client(settings.http, timeout=TIMEOUT, max_body=MAX_BODY)


@dataclass(slots=True)
class _Plan:
    """Next reading of a target's history."""

    moment: float = -inf  # monotonic; a new target is read at once
    reason: str | None = None
    """Reason why the last reading failed; empty after a success, None before the first result."""


class HistoryBaselines:
    """Reads the baselines of all targets with a history."""

    def __init__(self, fleet: Fleet, connect: Connect = open_client) -> None:
        """Prepare to ``run`` for the targets that ``fleet`` has at each moment."""
        self._fleet, self._connect = fleet, connect
        self._clock, self._remembered = fleet.shared.clock, fleet.shared.remembered
        self._plans: dict[tuple[tuple[str, str], PrometheusSettings], _Plan] = {}

    async def run(self) -> None:
        """Read what is due until cancelled."""
        while True:
            await self.read_due()
            await self._clock.sleep_until(self._clock.monotonic() + CHECK_SECONDS)

    async def read_due(self) -> None:
        """Read the history of each target that is new, has another history, or was read a day ago."""
        users = self._users()
        keys = {(each.target.key, settings) for settings, monitors in users.items() for each in monitors}
        self._plans = {key: plan for key, plan in self._plans.items() if key in keys}
        now = self._clock.monotonic()
        for settings, monitors in users.items():
            due = [monitor for monitor in monitors if self._plan(monitor, settings).moment <= now]
            if due:
                read = partial(self._read, settings, due, is_only_target=len(monitors) == 1)
                await self._fleet.shared.errors.attempt_async("baselines", read, {"source": settings.url})

    def give_up(self) -> None:
        """Note each target whose reading has not ended, because there is no more time for it."""
        for settings, monitors in self._users().items():
            left = [monitor for monitor in monitors if self._plan(monitor, settings).reason is None]
            self._note(settings, left, "there was no more time for it; shorten `lookback`")

    def _note(self, settings: PrometheusSettings, monitors: Iterable[TargetMonitor], reason: str) -> None:
        """Note why targets have no baseline, once for each reason."""
        source = without_query(settings.url.rstrip("/"))
        reason = reason.removeprefix(f"{source}: ").removeprefix(f"{source} ")
        for monitor in monitors:
            plan = self._plan(monitor, settings)
            if reason != plan.reason:
                monitor.record_event(Event("baseline_not_read", {"source": source, "reason": reason}))
            plan.reason = reason

    def _users(self) -> Mapping[PrometheusSettings, Sequence[TargetMonitor]]:
        general = self._fleet.config.baseline
        users: defaultdict[PrometheusSettings, list[TargetMonitor]] = defaultdict(list)
        for monitor in self._fleet:
            baseline = monitor.target.baseline or general
            if baseline is not None:
                users[baseline.prometheus].append(monitor)
        return users

    def _plan(self, monitor: TargetMonitor, settings: PrometheusSettings) -> _Plan:
        return self._plans.setdefault((monitor.target.key, settings), _Plan())

    async def _read(
        self, settings: PrometheusSettings, monitors: Sequence[TargetMonitor], *, is_only_target: bool
    ) -> None:
        for monitor in monitors:
            self._plan(monitor, settings).moment = self._clock.monotonic() + TRY_AGAIN_SECONDS
        client = self._connect(settings)
        api = QueryApi(settings.url, client)
        end = self._clock.wall()
        reader = BaselineReader(api, settings.match, end - settings.lookback, end)
        try:
            servers = await _in_time(reader.servers())
            for monitor in monitors:
                try:
                    server = server_of(monitor.target, servers, is_only_target=is_only_target)
                    self._adopt(monitor, await _in_time(reader.read(server)), api.name)
                except HistoryError as error:
                    self._note(settings, [monitor], str(error))
                else:
                    plan = self._plan(monitor, settings)
                    plan.moment, plan.reason = self._clock.monotonic() + READ_AGAIN_SECONDS, ""
        except HistoryError as error:
            self._note(settings, monitors, str(error))
        finally:
            await client.close()

    def _adopt(self, monitor: TargetMonitor, found: Mapping[str, FoundBaseline], source: str) -> None:
        for model, each in found.items():
            key = monitor.model_key(model)
            learned, period = self._remembered.baseline(key), each.baseline.summary(self._clock.wall())
            if learned.adopt(each.baseline) and period is not None:
                self._remembered.keep_baseline(key, learned)
                fields = {"model": model, "period": period.name, "source": source}
                monitor.record_event(Event("baseline_read", fields))


async def _in_time(reading: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(MAX_READING_SECONDS):
            return await reading
    except TimeoutError:
        raise HistoryError(
            f"reading takes more than {MAX_READING_SECONDS:.0f} s; shorten `lookback`"
        ) from None
