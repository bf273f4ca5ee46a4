"""Polls at moments that all targets share: fetch a page, read it, pass on its samples, record the result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from math import ceil, floor, inf, isfinite
from typing import Final

import structlog

from spec_decode_exporter.config.schema import Poll
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.recurring import OnceUntilRecovered, back_off
from spec_decode_exporter.core.tasks import PAGES, spawn, yield_to_event_loop
from spec_decode_exporter.scrape.client import Client, HttpResponse
from spec_decode_exporter.scrape.errors import PollError, Reason, no_engine_remedy
from spec_decode_exporter.scrape.filtered import PageChoice
from spec_decode_exporter.scrape.poll_record import Cause, Polled, PollRecord, RawPoll, Recorded
from spec_decode_exporter.scrape.sample import MAX_LAYOUT_BYTES, PageReading, SampleReader
from spec_decode_exporter.scrape.server_details import DETAILED, ServerDetails
from spec_decode_exporter.scrape.server_info import labelled_speculation

PHASES: Final = 8
"""Moments in an interval at which polls begin: they share a wake-up, a third of a poll's cost."""
MAX_PHASES: Final = 64
MANY_TARGETS: Final = 400
"""Targets from which on there are ``MAX_PHASES``: later polls of a moment wait for all earlier ones."""
MAX_BACK_OFF_REFUSED: Final = 5.0
"""Maximum back-off in seconds after a refused connection, which costs neither side anything."""
MAX_BACK_OFF: Final = 30.0
"""Maximum back-off in seconds after other failures."""
LARGE_PAGE: Final = 64 * 1024
"""Bytes; a larger page requires a permit. vLLM's whole page of one engine has 55 kB."""
PERMITS: Final = 3
"""Concurrent polls of large pages, and of costly targets."""
COSTLY_SHARE: Final = 0.5
"""Maximum share of a core for all costly polls; the rest is for other polls and for requests."""
ORDINARY_SHARE: Final = 0.00075
"""Share of a core up to which no target is costly, whatever the number of targets.

A target with one engine takes 0.0005 at one poll a second: above an even share of a thousand targets.
"""
TARGET_SHARE: Final = 0.05
"""Maximum share of a core for the polls of one target.

110 engines, the maximum on a page of the default size limit, take 0.03 s a poll once their layout is known.
"""
COST_POLLS: Final = 16
"""Polls over which processor time is averaged: the first page, where everything is new, counts little."""
COST_SECONDS: Final = 60.0
"""Seconds whose shortest response counts: longer ones waited behind the server's load."""
MAX_WINDOW_SHARE: Final = 1 / 6
"""Maximum effective interval, as a share of the shortest window."""
MAX_WAIT: Final = 60.0
"""Maximum interval in seconds that waiting for a permit can cause."""

_UNREACHABLE: Final[frozenset[Reason]] = frozenset({"refused", "timeout", "tls", "dns"})
"""Failures that are independent of the filter: a request for the whole page would fail too."""
_TOLERANCE: Final = 1e-3
"""Fraction of an interval that is ignored when intervals are rounded up."""
_EARLY: Final = 2e-3
"""Seconds by which a timer may fire early without a second poll at the same tick."""


def phase(key: str) -> float:
    """Return a position within an interval, 0 to 1, in steps of 1/64: stable, and spread over keys."""
    fine, coarse = divmod(blake2b(key.encode(), digest_size=1).digest()[0], 8)
    return (8 * coarse + fine % 8) / MAX_PHASES


def next_tick(now: float, interval: float, offset: float) -> float:
    """Return the first tick after ``now``; ticks are at ``(n + offset) · interval`` (monotonic)."""
    return (floor((now + _EARLY) / interval - offset) + 1 + offset) * interval


@dataclass(eq=False, slots=True)
class _Tick:
    """Moment at which polls begin, and the timer that wakes them."""

    timer: asyncio.Task[None]
    event: asyncio.Event = field(default_factory=asyncio.Event)
    sleepers: int = 0


class PollSchedule:
    """Moments and permits that the polls of all targets share.

    The targets share a few ticks in an interval. So there are few timers, whatever the number of targets, and
    the polls of a tick start in the same turn of the event loop. The limits of each page and target do not
    limit their product: a list may name hundreds of the costliest pages. So costly polls share a few permits.
    """

    def __init__(self, clock: Clock) -> None:
        """Sleep by ``clock``."""
        self._clock = clock
        self._ticks: dict[float, _Tick] = {}
        self._permits: asyncio.PriorityQueue[float] = asyncio.PriorityQueue()
        """Times (monotonic) from which each free permit can be used."""
        for _ in range(PERMITS):
            self._permits.put_nowait(0.0)
        self.targets = 0
        """Number of polled targets."""

    async def sleep_until(self, moment: float) -> None:
        """Return once ``monotonic()`` of the clock has reached ``moment``; at once if it is in the past."""
        tick = self._ticks.get(moment)
        if tick is None:
            tick = self._ticks[moment] = _Tick(spawn(self._wake_at(moment)))
        tick.sleepers += 1
        try:
            await tick.event.wait()
        finally:
            tick.sleepers -= 1
            if not tick.sleepers and self._ticks.get(moment) is tick:
                del self._ticks[moment]
                tick.timer.cancel()

    def is_costly(self, share: float) -> bool:
        """Return whether a target takes more of a core than its part, and than ordinary targets do."""
        return share > ORDINARY_SHARE and share * self.targets > COSTLY_SHARE

    @asynccontextmanager
    async def permit(self, spent: Callable[[], float]) -> AsyncIterator[None]:
        """Wait for a permit. It rests afterwards in proportion to the processor seconds of the poll.

        ``spent`` returns the processor seconds of the target's polls so far.
        """
        free_at = await self._permits.get()
        try:
            await self._clock.sleep_until(free_at)
            before = spent()
            try:
                yield
            finally:
                rest = (PERMITS / COSTLY_SHARE - 1) * (spent() - before)
                free_at = self._clock.monotonic() + rest
        finally:
            self._permits.put_nowait(free_at)

    async def _wake_at(self, moment: float) -> None:
        await self._clock.sleep_until(moment)
        self._ticks.pop(moment).event.set()


class DutyCycle:
    """Interval of a target: longer if polls cost the server or the exporter more than their share."""

    def __init__(self, interval: float, max_share: float, shortest_window: float) -> None:
        """Poll every ``interval`` seconds unless responses take more than ``max_share`` of that."""
        self._interval = interval
        self._max_share = max_share
        self._max_ticks = max(1, floor(shortest_window * MAX_WINDOW_SHARE / interval + _TOLERANCE))
        self._period = 0
        self._shortest = [inf, inf]
        """Seconds of the shortest response in this period of ``COST_SECONDS`` and in the one before."""
        self.waited = 0.0
        """Seconds that the last poll waited for a permit."""

    def answered(self, now: float, seconds: float) -> None:
        """Add the time of a response."""
        period = int(now // COST_SECONDS)
        if period != self._period:
            self._shortest = [inf, self._shortest[0] if period == self._period + 1 else inf]
            self._period = period
        self._shortest[0] = min(self._shortest[0], seconds)

    def ticks(self, cost: float) -> tuple[int, Cause | None]:
        """Return the configured intervals from one poll to the next, and why they are several.

        Whole intervals keep a target on its ticks when its cost varies. ``cost`` is the processor seconds of
        a poll.
        """
        shortest = min(self._shortest)
        answering = shortest / self._max_share if shortest < inf else 0.0
        processing = cost / TARGET_SHARE
        required = ceil(max(answering, processing) / self._interval - _TOLERANCE)
        waiting = floor(min(self.waited, MAX_WAIT) / self._interval) + 1
        ticks = max(1, min(required, self._max_ticks), waiting)
        if ticks == 1:
            return 1, None
        return ticks, "processing" if max(processing, self.waited) > answering else "answers"


class LargePageError(Exception):
    """The page is large, and the poll has no permit for it yet."""


class Poller:
    """Polls one server at ticks of its own; polls of one target never overlap."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        client: Client,
        poll: Poll,
        shortest_window: float,
        histogram_phase: float,
        schedule: PollSchedule,
        clock: Clock,
        receive: Callable[[Polled], Generator[None, None, bool]],
        emit: Callable[[Event], None],
        attempted: Callable[[], None],
        record: PollRecord,
        recorded: Recorded | None = None,
        layout_bytes: int = MAX_LAYOUT_BYTES,
    ) -> None:
        """Poll ``url``, the whole metrics page of the target ``name``, by ``client``.

        ``receive`` takes each page, yields between its engines, and returns whether the server's counters
        restarted. ``emit`` takes events, ``recorded`` takes each poll, failed ones included. ``attempted`` is
        called after each poll. The second poll with histograms is earlier by ``histogram_phase`` intervals: a
        fleet does not read them all at once. ``record`` outlives the poller. ``layout_bytes``: see
        ``SampleReader``.
        """
        self._name, self._url, self._client, self._poll = name, url, client, poll
        self._histogram_phase = histogram_phase
        self._schedule, self._clock = schedule, clock
        self._receive, self._emit, self._attempted, self._recorded = receive, emit, attempted, recorded
        phases = PHASES if schedule.targets < MANY_TARGETS else MAX_PHASES
        self._offset = floor(phase(url) * phases) / phases
        self._choice = PageChoice(url, enabled=poll.filter == "auto")
        self._reader = SampleReader(layout_bytes)
        self._details = ServerDetails(url, client, record, emit)
        self._duty = DutyCycle(poll.interval, poll.max_duty_cycle, shortest_window)
        self._large: set[bool] = set()
        """Kinds of pages that were large when last read: with histograms (True), without (False)."""
        self._is_permitted = False
        self._spent_here = 0.0
        """Processor seconds of reading and receiving pages."""
        self._work_began: float | None = None
        """Processor time at which the present work on a page began."""
        self._failures_in_a_row = 0
        self._log = structlog.get_logger(target=name)
        self._no_engine, self._crashes = OnceUntilRecovered(), OnceUntilRecovered()
        self.record = record
        record.interval = poll.interval

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await self._schedule.sleep_until(self._next_moment())
            await self.poll()

    async def poll(self) -> None:
        """Poll once and write the result into the record; no failure is raised."""
        self.record.polls += 1
        before, began = self._spent(), self._clock.monotonic()
        # Histograms are most of a page's cost: they are read rarely, beginning with the first poll.
        due = self.record.histograms_at + self._poll.histogram_interval
        with_latencies = began >= due - self.record.interval / 2
        try:
            await self._poll_within_budget(began, with_latencies=with_latencies)
        except PollError as error:
            self._failed(error.reason, str(error))
        except Exception:  # noqa: BLE001
            # An internal error must not end the monitoring of this target.
            if self._crashes.failed():
                self._log.exception("poll_crashed")
            self._failed("malformed", "the exporter could not handle the answer")
        else:
            self._crashes.recovered()
        self.record.cost += (self._spent() - before - self.record.cost) / COST_POLLS
        self._attempted()

    # Moments

    def _next_moment(self) -> float:
        """Return the tick of the next poll: the effective interval is a multiple of the configured one."""
        interval, wait = self._poll.interval, self.record.interval
        if self._failures_in_a_row:
            limit = MAX_BACK_OFF_REFUSED if self.record.error == "refused" else MAX_BACK_OFF
            wait = back_off(self._failures_in_a_row, wait, limit)
        self.record.pace = wait
        return next_tick(self._clock.monotonic() + wait - interval, interval, self._offset)

    def _adapt_interval(self, now: float) -> None:
        """Poll as often as the cost allows; log once why the interval is longer."""
        ticks, cause = self._duty.ticks(self.record.cost)
        self.record.interval = ticks * self._poll.interval
        if cause and (event := self.record.slowed_event(cause, now)) is not None:
            self._emit(event)

    # Budget

    async def _poll_within_budget(self, began: float, *, with_latencies: bool) -> None:
        """Poll; with a permit if the target's pages are large or costly."""
        is_costly = self._schedule.is_costly(self.record.cost / self._poll.interval)
        self._duty.waited = 0.0  # also if the poll fails: then back-off alone delays the next
        if with_latencies not in self._large and not is_costly:
            self._is_permitted = False
            with suppress(LargePageError):
                await self._poll_once(with_latencies=with_latencies)
                return
        async with self._schedule.permit(self._spent):
            self._duty.waited = self._clock.monotonic() - began
            self._is_permitted = True
            self._large.discard(with_latencies)
            await self._poll_once(with_latencies=with_latencies)

    def _spent(self) -> float:
        """Return the processor seconds of all polls so far, with work that an error has just ended."""
        self._end_work()
        return self._spent_here + self._client.spent

    # Pages

    async def _poll_once(self, *, with_latencies: bool) -> None:
        response, reading = await self._fetch(with_latencies=with_latencies)
        moment, wall, record = self._clock.monotonic(), self._clock.wall(), self.record
        self._duty.answered(moment, response.seconds - response.busy)
        self._adapt_interval(moment)
        self._keep(moment, wall, response.body)
        self._check_engine(reading, response.body)
        restarted = await self._received(Polled(reading, moment, wall, record.interval))
        if with_latencies:
            early = 0.0 if isfinite(record.histograms_at) else self._histogram_phase
            record.histograms_at = moment - early * self._poll.histogram_interval
        if restarted:
            self._choice.reset()
            self._details.reset()
            record.histograms_at = -inf
        if record.succeeded(response.seconds, len(response.body), len(reading.samples), wall):
            self._emit(Event("target_recovered", {"failed_polls": self._failures_in_a_row}))
        self._failures_in_a_row = 0
        if reading.settings is not None:
            record.speculation = labelled_speculation(reading.settings)
        elif reading.engine_kind in DETAILED and self._details.is_due(moment):
            await self._details.update(moment)

    async def _fetch(self, *, with_latencies: bool) -> tuple[HttpResponse, PageReading]:
        """Fetch and read the filtered page if it is complete, else the whole page: no data is lost."""
        choice = self._choice
        # After a failure another server may answer: the whole page shows more of it.
        url = None if self._failures_in_a_row else choice.filtered(with_latencies=with_latencies)
        if url is None:
            return await self._fetch_whole(with_latencies=with_latencies)
        shown = None
        try:
            fetched = await self._get(url, with_latencies=with_latencies)
        except PollError as error:
            if error.reason in _UNREACHABLE:
                choice.doubt(with_latencies=with_latencies)
                raise
        else:
            shown = self._reader.shown
            if choice.is_complete(shown, with_latencies=with_latencies):
                choice.trust(shown, with_latencies=with_latencies)
                self._record_page("filtered", with_latencies=with_latencies)
                return fetched
        fetched = await self._fetch_whole(with_latencies=with_latencies)
        # A series may have vanished from the whole page too.
        if shown is None or not choice.is_complete(shown, with_latencies=with_latencies):
            choice.refuse(with_latencies=with_latencies)
            self._emit(Event("filtered_page_not_used", {"histograms": with_latencies}))
        return fetched

    async def _fetch_whole(self, *, with_latencies: bool) -> tuple[HttpResponse, PageReading]:
        self._end_work()  # on a filtered page
        fetched = await self._get(self._url, with_latencies=with_latencies)
        self._choice.learn(self._reader.shown, with_latencies=with_latencies)
        self._record_page("whole", with_latencies=with_latencies)
        return fetched

    def _record_page(self, page: str, *, with_latencies: bool) -> None:
        """Record which page is polled; the rare polls with histograms may differ from all others."""
        if not with_latencies or not self.record.page:
            self.record.page = page

    async def _get(self, url: str, *, with_latencies: bool) -> tuple[HttpResponse, PageReading]:
        """Fetch and read a page; a large one only with a permit."""
        try:
            response = await self._client.get(url, max_body=None if self._is_permitted else LARGE_PAGE)
        except PollError as error:
            if error.reason == "too_large":
                self._large.add(with_latencies)
                if not self._is_permitted:
                    raise LargePageError from None
            raise
        if len(response.body) > LARGE_PAGE:
            self._large.add(with_latencies)
        return response, await self._read(response.body, with_latencies=with_latencies)

    async def _read(self, page: bytes, *, with_latencies: bool) -> PageReading:
        """Read a page; a large one of an unknown layout in a thread."""
        self._work_began = self._clock.processor()
        reading = self._reader.read_quickly(page, with_latencies=with_latencies)
        if reading is None:
            self._end_work()
            reading = await PAGES.run(self._read_in_thread, page, with_latencies)
            self._work_began = self._clock.processor()
        return reading

    def _read_in_thread(self, page: bytes, with_latencies: bool) -> PageReading:  # noqa: FBT001
        before = self._clock.processor()
        try:
            return self._reader.read(page, with_latencies=with_latencies)
        finally:
            self._spent_here += self._clock.processor() - before

    async def _received(self, polled: Polled) -> bool:
        """Pass a page on, with yields to the event loop; return whether the server's counters restarted."""
        work = self._receive(polled)
        while True:
            try:
                next(work)
            except StopIteration as end:
                self._end_work()
                return bool(end.value)
            self._end_work()
            await yield_to_event_loop()
            self._work_began = self._clock.processor()

    def _end_work(self) -> None:
        """Add the processor time since the work on a page began, if any is under way."""
        if self._work_began is not None:
            self._spent_here += self._clock.processor() - self._work_began
            self._work_began = None

    # Results

    def _failed(self, reason: Reason, message: str) -> None:
        now = self._clock.monotonic()
        self._failures_in_a_row += 1
        self._adapt_interval(now)
        self._keep(now, self._clock.wall(), None, reason)
        if self.record.failed(reason, message):
            self._emit(Event("target_failing", {"reason": reason, "error": message}))

    def _keep(self, moment: float, wall: float, page: bytes | None, error: Reason | None = None) -> None:
        """Pass a poll on to be recorded."""
        if self._recorded is not None:
            self._recorded(RawPoll(self._name, moment, wall, page, error, self.record.speculation))

    def _check_engine(self, reading: PageReading, page: bytes) -> None:
        """Note why a page has no known engine; log it once, until an engine is on it."""
        self.record.no_engine = "" if reading.samples else no_engine_remedy(page)
        if reading.samples:
            self._no_engine.recovered()
        elif self._no_engine.failed():
            self._emit(Event("no_engine_on_page", {"remedy": self.record.no_engine}))
