"""Poll loop of one target: wait for the next tick, fetch the page, pass on its samples, record the result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.cooperative_yield import Meter, Pausing
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.recurring import OnceUntilRecovered
from spec_decode_exporter.core.throttle import Throttle
from spec_decode_exporter.scrape.errors import NO_ENGINE_REMEDY, PollError, Reason
from spec_decode_exporter.scrape.http.client import Client, HttpResponse
from spec_decode_exporter.scrape.poll.duty_cycle import DutyCycle
from spec_decode_exporter.scrape.poll.page_fetcher import LargePageError, PageFetcher
from spec_decode_exporter.scrape.poll.poll_budget import PollBudget
from spec_decode_exporter.scrape.poll.poll_record import Polled, PollRecord
from spec_decode_exporter.scrape.poll.poll_schedule import PollSettings, Ticks, back_off
from spec_decode_exporter.scrape.poll.raw_poll import RawPoll, Recorded
from spec_decode_exporter.scrape.poll.server_details import ServerDetails
from spec_decode_exporter.scrape.sample import PageReading


class Poller:
    """Polls one server at ticks of its own; polls of one target never overlap."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        client: Client,
        settings: PollSettings,
        clock: Clock,
        sleep_until: Callable[[float], Awaitable[None]],
        receive: Callable[[Polled], Pausing[bool]],
        emit: Callable[[Event], None],
        attempted: Callable[[], None],
        record: PollRecord,
        budget: PollBudget,
        recorded: Recorded | None = None,
    ) -> None:
        """Poll ``url`` by ``client``.

        Args:
            name: Target name for the log.
            url: Address of the whole metrics page.
            client: HTTP client of this target.
            settings: Intervals and limits.
            clock: Time.
            sleep_until: Returns at a moment (monotonic): see ``PollScheduler``.
            receive: Takes each page; returns whether the server's counters restarted.
            emit: Takes events for the log.
            attempted: Called after each poll, successful or failed.
            record: Results; kept over configuration changes.
            budget: Memory and processor time, shared with the polls of other targets.
            recorded: Takes each poll, failed ones included.
        """
        self._name = name
        self._recorded = recorded
        self._url = url
        self._client = client
        self._settings = settings
        self._clock = clock
        self._sleep_until = sleep_until
        self._receive = receive
        self._emit = emit
        self._attempted = attempted
        self._budget = budget
        self._meter = Meter(clock.processor)
        self._fetcher = PageFetcher(
            url,
            client=client,
            filtered=settings.filtered,
            budget=budget,
            meter=self._meter,
            record=record,
            emit=emit,
        )
        self._details = ServerDetails(url, client, record, emit)
        self._duty = DutyCycle(
            settings.interval, settings.max_duty_cycle, settings.shortest_window, record.cost
        )
        self._spent = client.spent
        self._ticks = Ticks(url, settings.interval, lambda: budget.targets)
        self._failures_in_a_row = 0
        if record.histograms is None or record.histograms.interval != settings.histogram_interval:
            record.histograms = Throttle(settings.histogram_interval, settings.histogram_phase)
        self._with_latencies = record.histograms
        self._log = structlog.get_logger(target=name)
        self._no_engine = OnceUntilRecovered()
        self._crashes = OnceUntilRecovered()
        self.record = record

    @property
    def interval(self) -> float:
        """Effective interval in seconds, without back-off after failures."""
        return self._duty.interval()

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self._sleep_until(self._next_moment())
            await self.poll()

    async def poll(self) -> None:
        """Poll once and write the result into the record; no failure is raised."""
        self.record.polls += 1
        # Histograms are most of a page's cost: they are read rarely, beginning with the first poll.
        with_latencies = self._with_latencies.is_due(self._clock.monotonic(), self.interval / 2)
        try:
            await self._poll_within_budget(with_latencies=with_latencies)
        except PollError as error:
            self._failed(error.reason, str(error))
        except Exception:  # noqa: BLE001
            # An internal error must not end the monitoring of this target.
            if self._crashes.failed():
                self._log.exception("poll_crashed")
            self._failed("malformed", "the exporter could not handle the answer")
        else:
            self._crashes.recovered()
        self._add_cost()
        self._attempted()

    async def _poll_within_budget(self, *, with_latencies: bool) -> None:
        """Poll; with a permit if the target's pages are large or costly."""
        begin = self._clock.monotonic()
        large = self._fetcher.large
        share = self.record.cost.seconds / self._settings.interval
        if with_latencies not in large and not self._budget.is_costly(share):
            self._duty.waited(0.0)  # also if the poll fails: then back-off alone delays the next
            with suppress(LargePageError):
                await self._poll_once(with_latencies=with_latencies, permitted=False)
                return
        async with self._budget.permit(self.record.cost.total, self._processor_seconds):
            self._duty.waited(self._clock.monotonic() - begin)
            large.discard(with_latencies)
            await self._poll_once(with_latencies=with_latencies, permitted=True)

    async def _poll_once(self, *, with_latencies: bool, permitted: bool) -> None:
        response, reading = await self._fetcher.fetch(
            with_latencies=with_latencies,
            # After a failure another server may answer: the whole page shows more of it.
            whole=self._failures_in_a_row > 0,
            permitted=permitted,
        )
        await self._succeeded(response, reading, with_latencies=with_latencies)

    def _next_moment(self) -> float:
        """Return the tick of the next poll: the effective interval is a multiple of the configured one."""
        wait = self.interval
        if self._failures_in_a_row:
            reason: Reason = self.record.error  # type: ignore[assignment]  # set together with the failure
            wait = back_off(wait, self._failures_in_a_row, reason)
        return self._ticks.after(self._clock.monotonic(), wait)

    def _failed(self, reason: Reason, message: str) -> None:
        self._failures_in_a_row += 1
        self._keep(self._clock.monotonic(), self._clock.wall(), None, reason)
        if self.record.failed(reason, message):
            self._emit(Event("target_failing", {"reason": reason, "error": message}))

    async def _succeeded(self, response: HttpResponse, reading: PageReading, *, with_latencies: bool) -> None:
        moment, wall = self._clock.monotonic(), self._clock.wall()
        self._duty.answered(moment, response.seconds - response.busy)
        self._keep(moment, wall, response.body)
        self._check_engine(reading)
        receiving = self._receive(Polled(reading, moment, wall, self.interval))
        restarted = await self._meter.measured(receiving)
        if with_latencies:
            self._with_latencies.done(moment)
        if restarted:
            self._fetcher.reset()
            self._with_latencies.reset()
            self._details.reset()
        if self.record.succeeded(response.seconds, len(response.body), len(reading.samples), wall):
            self._emit(Event("target_recovered", {"failed_polls": self._failures_in_a_row}))
        self._failures_in_a_row = 0
        if reading.engine_kind == "vllm" and self._details.is_due(moment):
            await self._details.update(moment)

    def _keep(self, moment: float, wall: float, page: bytes | None, error: Reason | None = None) -> None:
        """Pass a poll on to be recorded."""
        if self._recorded is not None:
            self._recorded(RawPoll(self._name, moment, wall, page, error, self.record.speculation))

    def _check_engine(self, reading: PageReading) -> None:
        """Log a page without a known engine once, until an engine is on it."""
        if reading.samples:
            self._no_engine.recovered()
        elif self._no_engine.failed():
            self._emit(Event("no_engine_on_page", {"remedy": NO_ENGINE_REMEDY}))

    def _processor_seconds(self) -> float:
        """Return the processor seconds of all polls so far."""
        return self._meter.seconds + self._client.spent

    def _add_cost(self) -> None:
        """Add the poll's processor time to the target's cost; log once why the interval is longer."""
        now, spent = self._clock.monotonic(), self._processor_seconds()
        self.record.cost.polled(now, spent - self._spent)
        self._spent, self.record.interval = spent, self.interval
        cause = self._duty.cause
        if cause is None:
            return
        event = self.record.slowed_event(cause, self.interval, now)
        if event is not None:
            self._emit(event)
