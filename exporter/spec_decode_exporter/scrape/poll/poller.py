"""Polls one target: when to ask, which page, and what to make of the answer."""

from __future__ import annotations

import json
import math
from collections import Counter as Tally
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit, urlunsplit

import structlog

from spec_decode_exporter.core.clock import Clock
from spec_decode_exporter.core.cooperative_yield import Meter, Pausing, cooperatively
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.scrape.http.client import Answer, Client
from spec_decode_exporter.scrape.page.layout_map import Shown
from spec_decode_exporter.scrape.page.sample import PageReading
from spec_decode_exporter.scrape.page.sample_reader import SampleReader
from spec_decode_exporter.scrape.poll.filtered_page import PageChoice
from spec_decode_exporter.scrape.poll.poll_budget import LARGE_PAGE, PollBudget
from spec_decode_exporter.scrape.poll.poll_schedule import (
    Cause,
    DutyCycle,
    ProcessingCost,
    Throttle,
    back_off,
    next_beat,
    phase,
)
from spec_decode_exporter.scrape.poll.server_info import (
    MOST_ANSWER,
    PATH,
    ServedSpeculation,
    served_speculation,
    writable,
)
from spec_decode_exporter.scrape.poll_errors import PollError, Reason, StatusError

_UNREACHABLE: frozenset[Reason] = frozenset({"refused", "timeout", "tls", "dns"})
"""Failures that say nothing of the filtered page: the whole one would fail likewise."""
_MOST_VERSION = 64
DETAILS_EVERY = 60.0
"""Seconds from one request for ``/version`` and ``/server_info`` to the next, at least.

A server whose counters appear to restart with every poll is not asked more often. After a timeout
``/server_info`` is asked for once more: its first answer looks for the programs, drivers and packages of the
host, which took 2 s without a GPU and may take longer than the exporter waits. vLLM keeps it.
"""
SAID_AGAIN = 600.0
"""Seconds at the configured interval after which a longer one is logged again."""


@dataclass(frozen=True, slots=True)
class PollPace:
    """How one target is polled; all times in seconds."""

    interval: float
    histogram_interval: float
    max_duty_cycle: float
    shortest_window: float
    filtered: bool
    """Whether to ask for filtered pages where the server gives them."""
    histogram_phase: float = 0.0
    """By what part of its interval the second poll with histograms comes earlier: see ``Throttle``."""


@dataclass(frozen=True, slots=True)
class Polled:
    """A page that was polled and understood."""

    reading: PageReading
    moment: float
    """When it was read (monotonic)."""
    wall: float
    """The same as Unix time."""
    interval: float
    """The effective poll interval."""


@dataclass(slots=True)
class PollRecord:
    """How the polls of a target went."""

    polls: int = 0
    failures: Tally[Reason] = field(default_factory=Tally)
    up: bool | None = None
    error: str = ""
    """The reason of the newest poll's failure; empty after a success."""
    message: str = ""
    """The same in words."""
    seconds: float | None = None
    size: int | None = None
    last_success: float | None = None
    """Unix time."""
    page: str = ""
    version: str = ""
    speculation: ServedSpeculation | None = None
    """How the server says that it speculates; only one in development mode does."""
    details: Throttle = field(default_factory=lambda: Throttle(DETAILS_EVERY))
    """When ``/version`` and ``/server_info`` may be asked for; it outlives the poller, so a reload changes
    nothing."""
    unused: set[tuple[str, str]] = field(default_factory=set)
    """Which details were logged as not used, each with the kind of reason."""
    cost: ProcessingCost = field(default_factory=ProcessingCost)
    slowed: dict[Cause, float] = field(default_factory=dict)
    """When the interval was last longer than configured (monotonic), by cause."""

    def unused_event(self, source: str, kind: str, reason: str) -> Event | None:
        """Return the event that a detail is not used; None if that was logged for this kind of reason."""
        if (source, kind) in self.unused:
            return None
        self.unused.add((source, kind))
        return Event("server_details_not_used", {"source": source, "reason": reason}, is_bad=True)


class _LargePageError(Exception):
    """The page is large, and there is no permit for it yet."""


class Poller:
    """Asks one server for its page, on a beat of its own, never twice at a time."""

    def __init__(
        self,
        name: str,
        url: str,
        *,
        client: Client,
        pace: PollPace,
        clock: Clock,
        receive: Callable[[Polled], Pausing[bool]],
        tell: Callable[[Event], None],
        attempted: Callable[[], None],
        record: PollRecord,
        budget: PollBudget,
    ) -> None:
        """Poll ``url`` by ``client`` and hand what comes to ``receive``.

        ``receive`` returns whether the server's counters began anew; then what was learnt of the server
        is forgotten, since it may be another one. ``tell`` takes what is worth a line in the log.
        ``attempted`` is called after each poll, also one that failed. ``record`` goes on over changes of the
        configuration. ``budget`` is shared with the polls of other targets.
        """
        self._url = url
        self._client = client
        self._pace = pace
        self._clock = clock
        self._receive = receive
        self._tell = tell
        self._attempted = attempted
        self._budget = budget
        self._large: set[bool] = set()
        """The kinds of pages that were large when last read: with histograms (True), without (False)."""
        self._reader = SampleReader(lambda: budget.layout_bytes)
        self._choice = PageChoice(url, enabled=pace.filtered)
        self._duty = DutyCycle(pace.interval, pace.max_duty_cycle, pace.shortest_window, record.cost)
        self._meter = Meter(clock.processor)
        self._spent = client.spent
        self._offset = phase(url)
        self._failures_in_a_row = 0
        self._with_latencies = Throttle(pace.histogram_interval, pace.histogram_phase)
        self._log = structlog.get_logger(target=name)
        self._foreign = False
        self._permitted = False
        self._details_wanted = True
        self._speculation_wanted = False
        self._crashed = False
        self.record = record

    @property
    def interval(self) -> float:
        """The effective interval in seconds, back-off after failures apart."""
        return self._duty.interval()

    async def run(self) -> None:
        """Poll for ever."""
        while True:
            await self._clock.sleep_until(self._next_moment())
            await self.poll()

    async def poll(self) -> None:
        """Ask once. Whatever comes, this returns, and the record says what it was."""
        self.record.polls += 1
        # Histograms are most of a page's cost: they are read now and then, beginning with the first poll.
        with_latencies = self._with_latencies.is_due(self._clock.monotonic(), self.interval / 2)
        try:
            await self._poll_within_budget(with_latencies=with_latencies)
        except PollError as error:
            self._failed(error.reason, str(error))
        except Exception:  # noqa: BLE001
            # A defect of ours must not end the watch over this target.
            if not self._crashed:
                self._log.exception("poll_crashed")
            self._crashed = True
            self._failed("malformed", "the exporter could not handle the answer")
        else:
            self._crashed = False
        self._note_cost()
        self._attempted()

    async def _poll_within_budget(self, *, with_latencies: bool) -> None:
        """Poll; if the target's pages are large or costly, with a permit that few polls have at a time."""
        begin = self._clock.monotonic()
        share = self.record.cost.seconds / self._pace.interval
        if with_latencies not in self._large and not self._budget.is_costly(share):
            self._duty.waited(0.0)  # also where the poll fails: then back-off alone delays the next
            with suppress(_LargePageError):
                await self._poll_once(with_latencies=with_latencies)
                return
        async with self._budget.permit(self.record.cost.total, self._processor_seconds):
            self._duty.waited(self._clock.monotonic() - begin)
            self._large.discard(with_latencies)
            self._permitted = True
            try:
                await self._poll_once(with_latencies=with_latencies)
            finally:
                self._permitted = False

    async def _poll_once(self, *, with_latencies: bool) -> None:
        answer, reading = await self._ask(with_latencies=with_latencies)
        await self._succeeded(answer, reading, with_latencies=with_latencies)

    def _next_moment(self) -> float:
        """Return the beat at which to poll next: the effective interval is some of the configured ones."""
        now, beat = self._clock.monotonic(), self._pace.interval
        wait = self.interval
        if self._failures_in_a_row:
            reason: Reason = self.record.error  # type: ignore[assignment]  # set together with the failure
            wait = back_off(wait, self._failures_in_a_row, reason)
        return next_beat(now + wait - beat, beat, self._offset)

    async def _ask(self, *, with_latencies: bool) -> tuple[Answer, PageReading]:
        url = self._choice.filtered(with_latencies=with_latencies)
        # Where the last poll failed, the whole page says more: what comes back may be another server.
        if url is None or self._failures_in_a_row:
            return await self._ask_whole(with_latencies=with_latencies)
        shown = Shown()
        try:
            answer, reading = await self._get(url, with_latencies=with_latencies)
        except PollError as error:
            if error.reason in _UNREACHABLE:
                self._choice.doubt(with_latencies=with_latencies)
                raise
        else:
            shown = self._reader.shown
            if self._is_complete(shown, with_latencies=with_latencies):
                self._choice.trust(shown)
                self._show_page("filtered", with_latencies=with_latencies)
                return answer, reading
        # The same poll asks for the whole page, so that nothing of it is lost.
        whole = await self._ask_whole(with_latencies=with_latencies)
        if not self._is_complete(shown, with_latencies=with_latencies):
            self._choice.refuse(with_latencies=with_latencies)
            self._tell(Event("filtered_page_not_used", {"histograms": with_latencies}))
        return whole

    async def _ask_whole(self, *, with_latencies: bool) -> tuple[Answer, PageReading]:
        answer, reading = await self._get(self._url, with_latencies=with_latencies)
        with self._meter.running():
            self._choice.learn(self._reader.shown, with_latencies=with_latencies)
        self._show_page("full", with_latencies=with_latencies)
        return answer, reading

    def _is_complete(self, shown: Shown, *, with_latencies: bool) -> bool:
        with self._meter.running():
            return self._choice.is_complete(shown, with_latencies=with_latencies)

    def _show_page(self, page: str, *, with_latencies: bool) -> None:
        """Say which page is polled; the rare polls with histograms may differ from all others."""
        if not with_latencies or not self.record.page:
            self.record.page = page

    async def _get(self, url: str, *, with_latencies: bool) -> tuple[Answer, PageReading]:
        answer = await self._get_page(url, with_latencies=with_latencies)
        async with self._budget.reading(len(answer.body)):
            reading = self._reader.read(answer.body, with_latencies=with_latencies)
            return answer, await cooperatively(self._meter.measured(reading))

    async def _get_page(self, url: str, *, with_latencies: bool) -> Answer:
        """Return the page; a large one only with a permit.

        Raises:
            _LargePageError: There is no permit.
        """
        try:
            answer = await self._client.get(url, max_body=None if self._permitted else LARGE_PAGE)
        except PollError as error:
            if error.reason == "too_large":
                self._large.add(with_latencies)
                if not self._permitted:
                    raise _LargePageError from None
            raise
        if len(answer.body) > LARGE_PAGE:
            self._large.add(with_latencies)
        return answer

    def _failed(self, reason: Reason, message: str) -> None:
        record = self.record
        is_new = record.error != reason
        record.failures[reason] += 1
        record.up, record.error, record.message = False, reason, message
        self._failures_in_a_row += 1
        if is_new:
            self._tell(Event("target_failing", {"reason": reason, "error": message}, is_bad=True))

    async def _succeeded(self, answer: Answer, reading: PageReading, *, with_latencies: bool) -> None:
        moment, wall = self._clock.monotonic(), self._clock.wall()
        self._duty.answered(moment, answer.seconds - answer.busy)
        self._note_engine(reading)
        receiving = self._receive(Polled(reading, moment, wall, self.interval))
        began_again = await cooperatively(self._meter.measured(receiving))
        if with_latencies:
            self._with_latencies.done(moment)
        if began_again:
            self._choice.forget()
            self._with_latencies.begin_again()
        self._note_success(answer, wall)
        self._details_wanted |= began_again
        wanted = self._details_wanted or self._speculation_wanted
        if wanted and reading.engine_kind == "vllm" and self.record.details.is_due(moment):
            self.record.details.done(moment)
            await self._ask_details()

    async def _ask_details(self) -> None:
        """Ask what the metrics do not say; if the answer takes too long, once more later."""
        first, self._details_wanted = self._details_wanted, False
        if first:
            self.record.version = await self._ask_version()
        is_late = await self._ask_speculation()
        self._speculation_wanted = first and is_late

    def _processor_seconds(self) -> float:
        """Return the processor time of all polls so far."""
        return self._meter.seconds + self._client.spent

    def _note_cost(self) -> None:
        """Take note of what the poll cost us, and log once why the target is polled less often."""
        now, spent = self._clock.monotonic(), self._processor_seconds()
        self.record.cost.polled(now, spent - self._spent)
        self._spent = spent
        cause, slowed = self._duty.cause, self.record.slowed
        if cause is None:
            return
        is_new = now - slowed.get(cause, -math.inf) > SAID_AGAIN
        slowed[cause] = now
        if is_new:
            fields: dict[str, object] = {"cause": cause, "interval": self.interval}
            self._tell(Event("target_polled_less_often", fields, is_bad=cause == "processing"))

    def _tell_unused(self, source: str, kind: str, reason: str) -> None:
        event = self.record.unused_event(source, kind, reason)
        if event is not None:
            self._tell(event)

    def _note_success(self, answer: Answer, wall: float) -> None:
        record = self.record
        if record.up is False:
            self._tell(Event("target_recovered", {"failed_polls": self._failures_in_a_row}))
        record.up, record.error, record.message, self._failures_in_a_row = True, "", "", 0
        record.seconds, record.size, record.last_success = answer.seconds, len(answer.body), wall

    def _note_engine(self, reading: PageReading) -> None:
        foreign = not reading.engine_kind
        if foreign and not self._foreign:
            remedy = "check the path; vLLM needs its log stats on"
            self._tell(Event("no_engine_on_page", {"remedy": remedy}, is_bad=True))
        self._foreign = foreign

    async def _ask_version(self) -> str:
        """Return the server's version, or nothing: an older server has no such page, a proxy may hide it."""
        try:
            answer = await self._ask_detail("version", "version")
            version = json.loads(answer.body)["version"]
        except (PollError, ValueError, LookupError, TypeError, RecursionError):
            return ""
        return writable(version, _MOST_VERSION)

    async def _ask_speculation(self) -> bool:
        """Note how the server says that it speculates; return whether its answer takes too long.

        A question that fails takes nothing back: what the server said holds until it says something else, or
        that it has no such page.
        """
        try:
            answer = await self._ask_detail("server_info", PATH)
        except PollError as error:
            if isinstance(error, StatusError) and error.status == HTTPStatus.NOT_FOUND:
                self.record.speculation = None
            return error.reason == "timeout"
        found = self.record.speculation = served_speculation(answer.body)
        if found and found.problem:
            self._tell_unused("server_info", found.problem, found.problem)
        return False

    async def _ask_detail(self, source: str, page: str) -> Answer:
        try:
            return await self._client.get(beside(self._url, page), max_body=MOST_ANSWER)
        except PollError as error:
            if error.reason == "too_large":
                self._tell_unused(source, error.reason, str(error))
            raise


def beside(url: str, page: str) -> str:
    """Return the address of a page of vLLM's that stands beside its metrics page."""
    parts = urlsplit(url)
    folder = parts.path.rstrip("/").rpartition("/")[0]
    return urlunsplit((parts.scheme, parts.netloc, f"{folder}/", "", "")) + page
