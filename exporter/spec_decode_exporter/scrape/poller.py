"""Polls at moments that all targets share: fetch a page, read it, pass on its samples, record the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from hashlib import blake2b
from math import ceil, floor, inf, isfinite
from typing import Final

import structlog

from spec_decode_exporter.config.schema import Poll
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.recurring import OnceUntilRecovered, back_off
from spec_decode_exporter.core.tasks import PAGES, yield_to_event_loop
from spec_decode_exporter.scrape.client import Client, HttpResponse
from spec_decode_exporter.scrape.errors import PollError, Reason, no_engine_remedy
from spec_decode_exporter.scrape.filtered import FilteredPage
from spec_decode_exporter.scrape.poll_record import Cause, Polled, PollRecord, RawPoll, Recorded
from spec_decode_exporter.scrape.sample import MAX_LAYOUT_BYTES, PageReading, SampleReader
from spec_decode_exporter.scrape.server_details import DETAILED, ServerDetails
from spec_decode_exporter.scrape.server_info import labelled_speculation

PHASES: Final = 8
"""Moments in an interval at which polls begin: they share a wake-up, a third of a poll's cost."""
MAX_BACK_OFF_REFUSED: Final = 5.0
"""Maximum back-off in seconds after a refused connection, which costs neither side anything."""
MAX_BACK_OFF: Final = 30.0
"""Maximum back-off in seconds after other failures."""
LARGE_PAGE: Final = 64 * 1024
"""Bytes; a larger page requires a permit. vLLM's whole page of one engine has 55 kB."""
PERMITS: Final = 3
"""Concurrent polls of large pages."""
COSTLY_SHARE: Final = 0.5
"""Maximum share of a core for all costly targets; the rest is for other polls and for requests."""
ORDINARY_SHARE: Final = 0.00075
"""Share of a core up to which a target is not costly; one engine takes 0.0005 at one poll a second."""
TARGET_SHARE: Final = 0.05
"""Maximum share of a core for the polls of one target.

110 engines, the maximum on a page of the default size limit, take 0.03 s a poll once their layout is known.
"""
COST_POLLS: Final = 16
"""Polls over which processor time is averaged: the first page, where everything is new, counts little."""
FORGETTING: Final = 1.02
"""Factor a poll by which the shortest response is forgotten: longer ones waited behind the server's load."""
MIN_ANSWER: Final = 0.001
"""Seconds; a shorter response counts as this."""
MAX_WINDOW_SHARE: Final = 1 / 6
"""Maximum effective interval of a target by its own cost, as a share of the shortest window."""

_UNREACHABLE: Final[frozenset[Reason]] = frozenset({"refused", "timeout", "tls", "dns"})
"""Failures that are independent of the filter: a request for the whole page would fail too."""
_TOLERANCE: Final = 1e-3
"""Fraction of an interval that is ignored when intervals are rounded up."""
_EARLY: Final = 2e-3
"""Seconds by which a timer may fire early without a second poll at the same tick."""


def phase(key: str) -> float:
    """Return a position within an interval, 0 to 1, in steps of 1/256: stable, and spread over keys."""
    return blake2b(key.encode(), digest_size=1).digest()[0] / 256


def next_tick(now: float, interval: float, offset: float) -> float:
    """Return the first tick after ``now``; ticks are at ``(n + offset) · interval`` (monotonic)."""
    return (floor((now + _EARLY) / interval - offset) + 1 + offset) * interval


class PollBudget:
    """What costly polls of all targets share: the limits of each target do not limit hundreds of them."""

    def __init__(self) -> None:
        self.permits = asyncio.Semaphore(PERMITS)
        """Permits for large pages, which take memory."""
        self._shares: dict[object, float] = {}
        """Shares of a core that costly targets would take at their configured intervals."""

    def interval(self, target: object, cost: float, configured: float) -> float:
        """Return the interval of a target that takes ``cost`` processor seconds a poll.

        All costly targets together keep to ``COSTLY_SHARE``: those above an even part of it get that part.
        """
        if cost <= ORDINARY_SHARE * configured:
            self.release(target)
            return configured
        self._shares[target] = cost / configured
        if sum(self._shares.values()) <= COSTLY_SHARE:
            return configured
        part = left = COSTLY_SHARE
        for number, share in enumerate(sorted(self._shares.values())):
            part = left / (len(self._shares) - number)
            if share >= part:
                break
            left -= share
        return max(configured, cost / part)

    def release(self, target: object) -> None:
        """Leave the part of a target to the others."""
        self._shares.pop(target, None)


class ProcessorTime:
    """Processor time of ``with`` blocks, which contain no ``await`` and no other such block."""

    def __init__(self, processor: Callable[[], float]) -> None:
        """Measure by ``processor``."""
        self._processor = processor
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._began = self._processor()

    def __exit__(self, *_: object) -> None:
        self.seconds += self._processor() - self._began


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
        budget: PollBudget,
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
        self._budget, self._clock = budget, clock
        self._receive, self._emit, self._attempted, self._recorded = receive, emit, attempted, recorded
        self._offset = floor(phase(url) * PHASES) / PHASES
        self._longest = floor(shortest_window * MAX_WINDOW_SHARE / poll.interval + _TOLERANCE) * poll.interval
        self._filtered = self._filtered_pages()
        self._reader = SampleReader(layout_bytes)
        self._details = ServerDetails(url, client, record, emit)
        self._large: set[bool] = set()
        """Kinds of pages that were large when last read: with histograms (True), without (False)."""
        self._is_permitted = False
        self._answer = inf
        """Seconds of the shortest response, of late ones rather than of early ones."""
        self._waited = 0.0
        """Seconds that the last poll waited for a permit."""
        self._work = ProcessorTime(clock.processor)
        """Time of reading and receiving pages."""
        self._failures_in_a_row = 0
        self._log = structlog.get_logger(target=name)
        self._no_engine, self._crashes = OnceUntilRecovered(), OnceUntilRecovered()
        self.record = record
        record.interval = poll.interval

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                await self._clock.sleep_until(self._next_moment())
                await self.poll()
        finally:
            self._budget.release(self)

    async def poll(self) -> None:
        """Poll once and write the result into the record; no failure is raised."""
        self.record.polls += 1
        before, began = self._work.seconds + self._client.spent, self._clock.monotonic()
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
        spent = self._work.seconds + self._client.spent - before
        self.record.cost += (spent - self.record.cost) / COST_POLLS
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
        """Poll as often as the cost allows; log once why the interval is longer.

        Whole intervals keep a target on its ticks when its cost varies.
        """
        configured, cost = self._poll.interval, self.record.cost
        answering = self._answer / self._poll.max_duty_cycle if self._answer < inf else 0.0
        processing = cost / TARGET_SHARE
        sharing = max(self._waited, self._budget.interval(self, cost, configured))
        required = max(min(max(answering, processing), self._longest), sharing)
        ticks = max(1, ceil(required / configured - _TOLERANCE))
        self.record.interval = ticks * configured
        if ticks > 1:
            cause: Cause = "processing" if max(processing, sharing) > answering else "answers"
            if (event := self.record.slowed_event(cause, now)) is not None:
                self._emit(event)

    async def _poll_within_budget(self, began: float, *, with_latencies: bool) -> None:
        """Poll; with a permit if the page is large."""
        self._waited = 0.0  # also if the poll fails: then back-off alone delays the next
        if with_latencies not in self._large:
            self._is_permitted = False
            with suppress(LargePageError):
                await self._poll_once(with_latencies=with_latencies)
                return
        async with self._budget.permits:
            self._waited = self._clock.monotonic() - began
            self._is_permitted = True
            self._large.discard(with_latencies)
            await self._poll_once(with_latencies=with_latencies)

    # Pages

    async def _poll_once(self, *, with_latencies: bool) -> None:
        response, reading = await self._fetch(with_latencies=with_latencies)
        moment, wall, record = self._clock.monotonic(), self._clock.wall(), self.record
        self._answer = min(max(response.seconds - response.busy, MIN_ANSWER), self._answer * FORGETTING)
        self._adapt_interval(moment)
        self._keep(moment, wall, response.body)
        self._check_engine(reading, response.body)
        restarted = await self._received(Polled(reading, moment, wall, record.interval))
        if with_latencies:
            early = 0.0 if isfinite(record.histograms_at) else self._histogram_phase
            record.histograms_at = moment - early * self._poll.histogram_interval
        if restarted:
            self._filtered = self._filtered_pages()
            self._details.reset()
            record.histograms_at = -inf
        if record.succeeded(response.seconds, len(response.body), len(reading.samples), wall):
            self._emit(Event("target_recovered", {"failed_polls": self._failures_in_a_row}))
        self._failures_in_a_row = 0
        if reading.settings is not None:
            record.speculation = labelled_speculation(reading.settings)
        elif reading.engine_kind in DETAILED and self._details.is_due(moment):
            await self._details.update(moment)

    def _filtered_pages(self) -> dict[bool, FilteredPage]:
        """Return the filtered pages with histograms (True) and without (False), of an unknown server."""
        is_wanted = self._poll.filter == "auto"
        return {tier: FilteredPage(self._url, tier, is_wanted=is_wanted) for tier in (False, True)}

    async def _fetch(self, *, with_latencies: bool) -> tuple[HttpResponse, PageReading]:
        """Fetch and read the filtered page if it is complete, else the whole page: no data is lost."""
        filtered, shown = self._filtered[with_latencies], None
        # After a failure another server may answer: the whole page shows more of it.
        url = "" if self._failures_in_a_row else filtered.url
        if url:
            try:
                fetched = await self._get(url, with_latencies=with_latencies)
            except PollError as error:
                if error.reason in _UNREACHABLE:
                    filtered.doubt()
                    raise
            else:
                shown = self._reader.shown
                if filtered.is_complete(shown):
                    filtered.trust(shown)
                    self._record_page("filtered", with_latencies=with_latencies)
                    return fetched
        fetched = await self._get(self._url, with_latencies=with_latencies)
        for tier in {False, with_latencies}:
            self._filtered[tier].learn(self._reader.shown)
        self._record_page("whole", with_latencies=with_latencies)
        # A series may have vanished from the whole page too.
        if url and not (shown and filtered.is_complete(shown)):
            filtered.refuse()
            self._emit(Event("filtered_page_not_used", {"histograms": with_latencies}))
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
        with self._work:
            reading = self._reader.read_quickly(page, with_latencies=with_latencies)
        if reading is not None:
            return reading
        return await PAGES.run(self._read_slowly, page, with_latencies)

    def _read_slowly(self, page: bytes, with_latencies: bool) -> PageReading:  # noqa: FBT001
        with self._work:
            return self._reader.read(page, with_latencies=with_latencies)

    async def _received(self, polled: Polled) -> bool:
        """Pass a page on, with yields to the event loop; return whether the server's counters restarted."""
        work = self._receive(polled)
        while True:
            with self._work:
                try:
                    next(work)
                except StopIteration as end:
                    return bool(end.value)
            await yield_to_event_loop()

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
