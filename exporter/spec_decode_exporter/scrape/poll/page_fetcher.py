"""Fetch and read one target's page: the filtered page where it is complete, else the whole page."""

from __future__ import annotations

from collections.abc import Callable

from spec_decode_exporter.core.cooperative_yield import Meter
from spec_decode_exporter.core.event import Event
from spec_decode_exporter.core.tasks import PAGES
from spec_decode_exporter.scrape.errors import PollError, Reason
from spec_decode_exporter.scrape.http.client import Client, HttpResponse
from spec_decode_exporter.scrape.poll.filtered_page import PageChoice
from spec_decode_exporter.scrape.poll.poll_budget import LARGE_PAGE, PollBudget
from spec_decode_exporter.scrape.poll.poll_record import PollRecord
from spec_decode_exporter.scrape.sample import PageReading, PageSeries, SampleReader

_UNREACHABLE: frozenset[Reason] = frozenset({"refused", "timeout", "tls", "dns"})
"""Failures that are independent of the filter: a request for the whole page would fail too."""


class LargePageError(Exception):
    """The page is large, and the poll has no permit for it yet."""


class PageFetcher:
    """Fetches and reads the pages of one target."""

    def __init__(
        self,
        url: str,
        *,
        client: Client,
        filtered: bool,
        budget: PollBudget,
        meter: Meter,
        record: PollRecord,
        emit: Callable[[Event], None],
    ) -> None:
        """Fetch ``url`` by ``client``; with ``filtered``, its filtered page if that is complete.

        ``meter`` adds up the processor time of reading. ``emit`` takes events for the log.
        """
        self._url = url
        self._client = client
        self._budget = budget
        self._meter = meter
        self._record = record
        self._emit = emit
        self._reader = SampleReader(budget.layout_bytes)
        self._choice = PageChoice(url, enabled=filtered)
        self._permitted = False
        self.large: set[bool] = set()
        """Kinds of pages that were large when last read: with histograms (True), without (False)."""

    def reset(self) -> None:
        """Drop all knowledge of the filtered page: the server restarted, or another server answers."""
        self._choice.reset()

    async def fetch(
        self, *, with_latencies: bool, whole: bool, permitted: bool
    ) -> tuple[HttpResponse, PageReading]:
        """Return the response and the page's samples.

        Args:
            with_latencies: Read the histograms too.
            whole: Request the whole page, without a filter.
            permitted: The poll has a permit for large pages.

        Raises:
            LargePageError: The page is large and ``permitted`` is False.
            PollError: There is no page, or no readable one.
        """
        self._permitted = permitted
        url = None if whole else self._choice.filtered(with_latencies=with_latencies)
        if url is None:
            return await self._fetch_whole(with_latencies=with_latencies)
        shown = PageSeries()
        try:
            response, reading = await self._get(url, with_latencies=with_latencies)
        except PollError as error:
            if error.reason in _UNREACHABLE:
                self._choice.doubt(with_latencies=with_latencies)
                raise
        else:
            shown = self._reader.shown
            if self._is_complete(shown, with_latencies=with_latencies):
                self._choice.trust(shown)
                self._record_page("filtered", with_latencies=with_latencies)
                return response, reading
        # The same poll requests the whole page, so that no data is lost.
        fetched = await self._fetch_whole(with_latencies=with_latencies)
        if not self._is_complete(shown, with_latencies=with_latencies):
            self._choice.refuse(with_latencies=with_latencies)
            self._emit(Event("filtered_page_not_used", {"histograms": with_latencies}))
        return fetched

    async def _fetch_whole(self, *, with_latencies: bool) -> tuple[HttpResponse, PageReading]:
        response, reading = await self._get(self._url, with_latencies=with_latencies)
        with self._meter.running():
            self._choice.learn(self._reader.shown, with_latencies=with_latencies)
        self._record_page("whole", with_latencies=with_latencies)
        return response, reading

    def _is_complete(self, shown: PageSeries, *, with_latencies: bool) -> bool:
        if self._choice.is_known(shown, with_latencies=with_latencies):
            return True
        with self._meter.running():
            return self._choice.is_complete(shown, with_latencies=with_latencies)

    def _record_page(self, page: str, *, with_latencies: bool) -> None:
        """Record which page is polled; the rare polls with histograms may differ from all others."""
        if not with_latencies or not self._record.page:
            self._record.page = page

    async def _get(self, url: str, *, with_latencies: bool) -> tuple[HttpResponse, PageReading]:
        response = await self._get_page(url, with_latencies=with_latencies)
        with self._meter.running():
            reading = self._reader.read_quickly(response.body, with_latencies=with_latencies)
        if reading is None:
            reading = await PAGES.run(self._read, response.body, with_latencies=with_latencies)
        return response, reading

    def _read(self, page: bytes, *, with_latencies: bool) -> PageReading:
        with self._meter.running():
            return self._reader.read(page, with_latencies=with_latencies)

    async def _get_page(self, url: str, *, with_latencies: bool) -> HttpResponse:
        """Return the page; a large one only with a permit."""
        try:
            response = await self._client.get(url, max_body=None if self._permitted else LARGE_PAGE)
        except PollError as error:
            if error.reason == "too_large":
                self.large.add(with_latencies)
                if not self._permitted:
                    raise LargePageError from None
            raise
        if len(response.body) > LARGE_PAGE:
            self.large.add(with_latencies)
        return response
