"""Filtered page of a server, ``/metrics/?name[]=…``, in the place of the whole one.

A filtered page costs vLLM a ninth of a whole page. But a server with several API processes returns an empty
one, another path ignores the filter, and a proxy may reject it or close the connection. So a filtered page is
trusted only while it has every series of the whole page.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from spec_decode_exporter.scrape.engines import (
    HISTOGRAMS,
    MEANINGS,
    PROCESS_START,
    SPECULATION,
    EngineMark,
)
from spec_decode_exporter.scrape.sample import PageSeries

MAX_DOUBTS: Final = 2
"""Consecutive failed requests for a filtered page until it is refused; server failures count too."""


class FilteredPage:
    """Filtered page of a server, with or without histograms; requested only while it is complete."""

    def __init__(self, whole: str, with_latencies: bool, *, is_wanted: bool) -> None:  # noqa: FBT001
        """Begin without an address, that of the ``whole`` page is known; stay so unless ``is_wanted``."""
        self._whole, self._with_latencies = whole, with_latencies
        self._doubts = 0 if is_wanted else MAX_DOUBTS
        self._required = PageSeries()  # wanted series of the last trusted page
        self.url = ""  # address; empty if the whole page is required

    def learn(self, shown: PageSeries) -> None:
        """Learn the server's series from a whole page."""
        if self._doubts < MAX_DOUBTS:
            names = wanted_names(shown.names, with_latencies=self._with_latencies)
            wanted = frozenset(map(str.encode, names))
            series = frozenset(series for series in shown.series if series.name in wanted)
            self._required = PageSeries(wanted & shown.names, series)
            self.url = filtered_url(self._whole, names) if names else ""

    def is_complete(self, shown: PageSeries) -> bool:
        """Return whether a filtered page has all series of the last trusted page; any bucket counts."""
        required = self._required
        return shown is required or (required.series <= shown.series and required.names <= shown.names)

    def trust(self, shown: PageSeries) -> None:
        """Require the series of this filtered page from the next one."""
        self._required, self._doubts = shown, 0

    def doubt(self, doubts: int) -> None:
        """Add doubts about a failed request; after ``MAX_DOUBTS``, only whole pages are requested."""
        self._doubts += doubts
        if self._doubts >= MAX_DOUBTS:
            self.url = ""


def wanted_names(present: frozenset[bytes], *, with_latencies: bool) -> list[str]:
    """Return the distinct sample names to request, sorted; ``present`` are those of the whole page.

    They are the newest present name of each quantity, and those that appear later: with drafts, or ends.
    """
    meanings = [MEANINGS[name] for name in sorted(present)]
    kind, prefix = next(((each.kind, each.prefix) for each in meanings if each.kind), (None, ""))
    wanted: set[str] = set()
    for quantity, row in kind.names.items() if kind else ():
        names = [prefix + name for name in row]
        shown = [name for name in names if name.encode() in present][:1]
        if quantity in HISTOGRAMS and not with_latencies:
            continue
        if kind and kind.counts_at_end:  # their counters appear when the first request ends
            wanted.update(names)
        elif shown or quantity in SPECULATION:
            wanted.update(shown or names[:1])
    has_start = any(MEANINGS[name.encode()].quantity is EngineMark.CREATED for name in wanted)
    if wanted and not has_start and PROCESS_START.encode() in present:
        wanted.add(PROCESS_START)
    return sorted(wanted)


def filtered_url(url: str, names: list[str]) -> str:
    """Return the URL of a page with only these samples: a path with a final slash, and the names as query."""
    path, _, query = url.partition("?")
    wanted = [query] * bool(query) + [f"name[]={quote(name, safe=':')}" for name in names]
    return f"{path.removesuffix('/')}/?{'&'.join(wanted)}"
