"""Pages of samples: time is read in pieces that get smaller where the server demands it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from spec_decode_exporter.history.query_api import HistoryError, SampledSeries, TooMuchError

MIN_PAGE: Final = 60
"""Seconds of the smallest page; a server that refuses even that refuses everything."""

Fetch = Callable[[float, int], Awaitable[Sequence[SampledSeries]]]
"""Returns the samples of a number of seconds up to a Unix time."""


class PageSize(NamedTuple):
    """Size of pages."""

    first: int
    """Seconds of the first one."""
    largest: int
    """Seconds of the largest one."""
    samples: int
    """Samples of a page, about."""


REPORT_PAGES: Final = PageSize(first=3600, largest=24 * 3600, samples=100_000)
"""Pages of a report: of 10 to 20 MB of memory."""


async def sample_pages(
    fetch: Fetch, begin: float, end: float, size: PageSize
) -> AsyncIterator[tuple[float, Sequence[SampledSeries]]]:
    """Yield the end and the series of each page between two Unix times, oldest first.

    Raises:
        HistoryError: The server refuses even the smallest page, or answers no more.
    """
    seconds = size.first
    while begin < end:
        edge = min(begin + seconds, end)
        try:
            page = await fetch(edge, max(1, round(edge - begin)))
        except TooMuchError as error:
            if seconds <= MIN_PAGE:
                raise HistoryError(f"{error}, even for {MIN_PAGE} s") from None
            seconds = max(MIN_PAGE, seconds // 2)
            continue
        yield edge, page
        begin = edge
        samples = max(1, sum(len(each.times) for each in page))
        seconds = int(min(max(MIN_PAGE, seconds * min(2.0, size.samples / samples)), size.largest))
