"""Polls at moments that all targets share: fetch a page, read it, pass on its samples, record the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from hashlib import blake2b
from http import HTTPStatus
from math import ceil, floor, inf, isfinite
from typing import Final

import structlog

from spec_decode_exporter.config.schema import Poll
from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.event import Event, Fields
from spec_decode_exporter.core.recurring import back_off
from spec_decode_exporter.core.tasks import PAGES, Parameters, Result, yield_to_event_loop
from spec_decode_exporter.core.urls import Url
from spec_decode_exporter.scrape.client import Client, HttpResponse
from spec_decode_exporter.scrape.errors import PollError, Reason, StatusError, no_engine_remedy
from spec_decode_exporter.scrape.filtered import MAX_DOUBTS, FilteredPage
from spec_decode_exporter.scrape.poll_record import Polled, PollRecord, RawPoll, Recorded
from spec_decode_exporter.scrape.sample import MAX_LAYOUT_BYTES, PageReading, SampleReader
from spec_decode_exporter.scrape.server_info import labelled_speculation, served_speculation, served_version

PHASES: Final = 8  # moments in an interval at which polls begin: targets share a wake-up and warm caches
MAX_BACK_OFF: Final = 30.0  # maximum back-off in seconds after a failure
MAX_BACK_OFF_REFUSED: Final = 5.0  # the same after a refused connection, which costs neither side anything
LARGE_PAGE: Final = 64 * 1024  # bytes; a larger page requires a permit. vLLM's whole one has 55 kB.
PERMITS: Final = 3  # concurrent polls of large pages
ORDINARY_SHARE: Final = 0.00075
"""Share of a core up to which a target is not costly; one engine takes 0.0005 at one poll a second."""
TARGET_SHARE: Final = 0.05
"""Maximum share of a core for one target: 110 engines, the most of a default page, take 0.03 s a poll."""
COSTLY_SHARE: Final = 0.5
"""Maximum share of a core for all costly targets; the rest is for other polls and for requests."""
COST_POLLS: Final = 16  # polls over which processor time is averaged: the first, dear page counts little
FORGETTING: Final = 1.02
"""Factor a poll by which the shortest response is forgotten: longer ones waited behind the server's load."""
MIN_ANSWER: Final = 0.001  # seconds; a shorter response counts as this
MAX_WINDOW_SHARE: Final = 1 / 6  # of the shortest window: maximum interval by the time of responses
SERVER_INFO_PATH: Final = "server_info?config_format=json"
"""Path beside the metrics page. An older vLLM ignores the query and returns text in the JSON."""
DETAILED: Final = frozenset({"vllm", "sglang"})  # kinds of engines with such pages; SGLang has no /version
MAX_RESPONSE_BYTES: Final = 128 * 1024  # of these pages; vLLM's /server_info has 22 kB, SGLang's more
DETAILS_INTERVAL: Final = 60.0
"""Minimum seconds between two requests for details, also if counters appear to restart with every poll.

After a timeout ``/server_info`` is requested once more: vLLM collects the host's programs, drivers and
packages for its first response, which took 2 s without a GPU. vLLM keeps the result.
"""

_UNREACHABLE: Final[frozenset[Reason]] = frozenset({"refused", "timeout", "tls", "dns"})
"""Failures that are independent of the filter: a request for the whole page would fail too."""
_TOLERANCE: Final = 1e-3  # fraction of an interval that is ignored when intervals are rounded up
_EARLY: Final = 2e-3  # seconds by which a timer may fire early without a second poll at the same tick


def phase(key: str) -> float:
    """Return a position within an interval, 0 to 1, in steps of 1/64: stable, and spread over keys."""
    fine, coarse = divmod(blake2b(key.encode(), digest_size=1).digest()[0], 8)
    return (8 * coarse + fine % 8) / 64


def next_tick(now: float, interval: float, offset: float) -> float:
    """Return the first tick after ``now``; ticks are at ``(n + offset) · interval`` (monotonic)."""
    return (floor((now + _EARLY) / interval - offset) + 1 + offset) * interval


class PollBudget:
    """What costly polls of all targets share: the limits of each target do not limit hundreds of them."""

    def __init__(self) -> None:
        self.permits = asyncio.Semaphore(PERMITS)  # permits for large pages, which take memory
        self._shares: dict[object, float] = {}
        """Shares of a core that costly targets would take at their configured intervals."""

    def interval(self, target: object, cost: float, configured: float) -> float:
        """Return the interval of a target that takes ``cost`` processor seconds a poll.

        It keeps to ``TARGET_SHARE``, and all costly targets together to ``COSTLY_SHARE``.
        """
        if cost <= ORDINARY_SHARE * configured:
            self.release(target)
            return configured
        share = self._shares[target] = min(cost / configured, TARGET_SHARE)
        return max(configured, cost / share * max(1.0, sum(self._shares.values()) / COSTLY_SHARE))

    def release(self, target: object) -> None:
        """Leave the part of a target to the others."""
        self._shares.pop(target, None)


class ServerDetails:
    """Requests a server's details after one of its starts, and writes them into the poll record."""

    def __init__(self, url: str, client: Client, record: PollRecord, emit: Callable[[Event], None]) -> None:
        """Request the pages beside the metrics page at ``url``; ``emit`` takes events for the log."""
        self._url, self._client, self._record, self._emit = url, client, record, emit
        self._attempts = 2

    def is_due(self, moment: float) -> bool:
        """Return whether details are wanted at ``moment`` (monotonic)."""
        return self._attempts > 0 and moment >= self._record.details_at + DETAILS_INTERVAL

    async def update(self, moment: float) -> None:
        """Request the details at ``moment`` (monotonic); after a timeout, once more later.

        A failed request keeps the last settings, except for status 404: the server has no such page.
        """
        record = self._record
        record.details_at, self._attempts = moment, self._attempts - 1
        version = await self._get("version", "version")
        record.version = served_version(version) if isinstance(version, bytes) else ""
        answer = await self._get("server_info", SERVER_INFO_PATH)
        if isinstance(answer, bytes):
            record.speculation = served_speculation(answer)
            if record.speculation and (problem := record.speculation.problem):
                self._emit_unused("server_info", problem, problem)
        elif isinstance(answer, StatusError) and answer.status == HTTPStatus.NOT_FOUND:
            record.speculation = None
        if not isinstance(answer, PollError) or answer.reason != "timeout":
            self._attempts = 0

    async def _get(self, source: str, page: str) -> bytes | PollError:
        address = str(Url.of(self._url).sibling(page))
        try:
            response = await self._client.get(address, max_body=MAX_RESPONSE_BYTES)
        except PollError as error:
            if error.reason == "too_large":
                self._emit_unused(source, error.reason, str(error))
            return error
        return response.body

    def _emit_unused(self, source: str, kind: str, reason: str) -> None:
        if self._record.is_news(source, kind):
            self._emit(Event("server_details_not_used", {"source": source, "reason": reason}))


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
        self._histogram_phase, self._budget, self._clock = histogram_phase, budget, clock
        self._receive, self._emit, self._attempted, self._recorded = receive, emit, attempted, recorded
        self._offset = floor(phase(url) * PHASES) / PHASES
        self._longest = floor(shortest_window * MAX_WINDOW_SHARE / poll.interval + _TOLERANCE) * poll.interval
        self._reader = SampleReader(layout_bytes)
        self._large: set[bool] = set()
        """Kinds of pages that were large when last read: with histograms (True), without (False)."""
        self._is_permitted = False
        self._answer = 0.0
        """Seconds of the shortest response, of late ones rather than of early ones; 0 before the first."""
        self._waited = 0.0  # seconds that the last poll waited for a permit
        self._spent = 0.0  # processor seconds of reading and receiving pages
        self._failures_in_a_row = 0
        self._log = structlog.get_logger(target=name)
        self.record = record
        record.interval = poll.interval
        self._forget_server()

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
        before, began = self._spent + self._client.spent, self._clock.monotonic()
        # Histograms are most of a page's cost: they are read rarely, beginning with the first poll.
        due = self.record.histograms_at + self._poll.histogram_interval
        with_latencies = began >= due - self.record.interval / 2
        try:
            await self._poll_within_budget(began, with_latencies=with_latencies)
        except PollError as error:
            self._failed(error.reason, str(error))
        except Exception:  # noqa: BLE001
            # An internal error must not end the monitoring of this target.
            if self.record.is_news("poll_crashed", now=began):
                self._log.exception("poll_crashed")
            self._failed("malformed", "the exporter could not handle the answer")
        spent = self._spent + self._client.spent - before
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
        answering = min(self._answer / self._poll.max_duty_cycle, self._longest)
        processing = max(self._waited, self._budget.interval(self, cost, configured))
        ticks = ceil(max(answering, processing) / configured - _TOLERANCE)
        self.record.interval = ticks * configured
        is_costly = processing > answering
        cause = "processing" if is_costly else "answers"
        if ticks > 1 and self.record.is_news("target_polled_less_often", cause, now=now):
            fields: Fields = {"cause": cause, "interval": self.record.interval}
            self._emit(Event("target_polled_less_often", fields, bad=is_costly))

    async def _poll_within_budget(self, began: float, *, with_latencies: bool) -> None:
        """Poll; with a permit if the page is large."""
        self._waited = 0.0  # also if the poll fails: then back-off alone delays the next
        self._is_permitted = with_latencies in self._large
        if not self._is_permitted:
            try:
                await self._poll_once(with_latencies=with_latencies)
            except PollError as error:
                if error.reason != "too_large":
                    raise
            else:
                return
        async with self._budget.permits:
            self._waited = self._clock.monotonic() - began
            self._is_permitted = True
            self._large.add(with_latencies)
            await self._poll_once(with_latencies=with_latencies)

    # Pages

    async def _poll_once(self, *, with_latencies: bool) -> None:
        response, reading = await self._fetch(with_latencies=with_latencies)
        moment, wall, record = self._clock.monotonic(), self._clock.wall(), self.record
        if len(response.body) <= LARGE_PAGE:
            self._large.discard(with_latencies)
        seconds = max(response.seconds - response.busy, MIN_ANSWER)
        self._answer = min(seconds, self._answer * FORGETTING or inf)
        self._adapt_interval(moment)
        self._keep(moment, wall, response.body)
        record.no_engine = "" if reading.samples else no_engine_remedy(response.body)
        if record.no_engine and record.is_news("no_engine_on_page", now=moment):
            self._emit(Event("no_engine_on_page", {"remedy": record.no_engine}))
        restarted = await self._received(Polled(reading, moment, wall, record.interval))
        if with_latencies:
            early = 0.0 if isfinite(record.histograms_at) else self._histogram_phase
            record.histograms_at = moment - early * self._poll.histogram_interval
        if restarted:
            self._forget_server()
            record.histograms_at = -inf
        if record.succeeded(response.seconds, len(response.body), len(reading.samples), wall):
            self._emit(Event("target_recovered", {"failed_polls": self._failures_in_a_row}))
        self._failures_in_a_row = 0
        if reading.settings is not None:
            record.speculation = labelled_speculation(reading.settings)
        elif reading.engine_kind in DETAILED and self._details.is_due(moment):
            await self._details.update(moment)

    def _forget_server(self) -> None:
        """Begin with the whole page and without details: another server may answer."""
        is_wanted = self._poll.filter == "auto"
        self._filtered = {tier: FilteredPage(self._url, tier, is_wanted=is_wanted) for tier in (False, True)}
        self._details = ServerDetails(self._url, self._client, self.record, self._emit)

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
                    filtered.doubt(1)
                if error.reason in _UNREACHABLE or (error.reason == "too_large" and not self._is_permitted):
                    raise
            else:
                shown = fetched[1].shown
                if filtered.is_complete(shown):
                    filtered.trust(shown)
                    self._record_page("filtered", with_latencies=with_latencies)
                    return fetched
        fetched = await self._get(self._url, with_latencies=with_latencies)
        for tier in {False, with_latencies}:
            self._filtered[tier].learn(fetched[1].shown)
        self._record_page("whole", with_latencies=with_latencies)
        # A series may have vanished from the whole page too.
        if url and not (shown and filtered.is_complete(shown)):
            filtered.doubt(MAX_DOUBTS)
            self._emit(Event("filtered_page_not_used", {"histograms": with_latencies}))
        return fetched

    def _record_page(self, page: str, *, with_latencies: bool) -> None:
        """Record which page is polled; the rare polls with histograms may differ from all others."""
        if not with_latencies or not self.record.page:
            self.record.page = page

    async def _get(self, url: str, *, with_latencies: bool) -> tuple[HttpResponse, PageReading]:
        """Fetch and read a page; a large one of an unknown layout is read in a thread."""
        response = await self._client.get(url, max_body=None if self._is_permitted else LARGE_PAGE)
        reader, page = self._reader, response.body
        reading = self._timed(reader.read_quickly, page, with_latencies=with_latencies)
        if reading is None:
            reading = await PAGES.run(self._timed, reader.read, page, with_latencies=with_latencies)
        return response, reading

    async def _received(self, polled: Polled) -> bool:
        """Pass a page on, with yields to the event loop; return whether the server's counters restarted."""
        work = self._receive(polled)
        while True:
            try:
                self._timed(next, work)
            except StopIteration as end:
                return bool(end.value)
            await yield_to_event_loop()

    def _timed(
        self, work: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """Call ``work``; add its processor time to that of the polls."""
        began = self._clock.processor()
        try:
            return work(*args, **kwargs)
        finally:
            self._spent += self._clock.processor() - began

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
