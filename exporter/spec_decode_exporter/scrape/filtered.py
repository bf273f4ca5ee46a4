"""Filtered page of a server, ``/metrics/?name[]=…``, in the place of the whole one.

A filtered page costs vLLM a ninth of a whole page. But a server with several API processes returns an empty
one, another path ignores the filter, and a proxy may reject it or close the connection. So a filtered page is
trusted only while it has every series of the whole page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from spec_decode_exporter.scrape.engines import (
    HISTOGRAMS,
    MEANINGS,
    PROCESS_START,
    SPECULATION,
    EngineKind,
    EngineMark,
)
from spec_decode_exporter.scrape.sample import PageSeries

_MAX_DOUBTS: Final = 2
"""Consecutive failed requests for a filtered page until it is refused; server failures count too."""


class FilteredPage:
    """Filtered page of a server, with or without histograms; requested only while it is complete."""

    def __init__(self, whole: str, with_latencies: bool, *, is_wanted: bool) -> None:  # noqa: FBT001
        """Begin without an address, that of the ``whole`` page is known; stay so unless ``is_wanted``."""
        self._whole, self._with_latencies = whole, with_latencies
        self._doubts = 0 if is_wanted else _MAX_DOUBTS
        self._required = PageSeries()
        """Wanted series of the last trusted page."""
        self.url = ""
        """Address; empty if the whole page is required."""

    def learn(self, shown: PageSeries) -> None:
        """Learn the server's series from a whole page."""
        if self._doubts < _MAX_DOUBTS:
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

    def doubt(self) -> None:
        """Count a failed request: the server may be down, or may reject filters."""
        self._doubts += 1
        if self._doubts >= _MAX_DOUBTS:
            self.refuse()

    def refuse(self) -> None:
        """Request whole pages from now on: the filtered page is incomplete."""
        self._doubts, self.url = _MAX_DOUBTS, ""


def wanted_names(present: frozenset[bytes], *, with_latencies: bool) -> list[str]:
    """Return the distinct sample names to request, sorted; ``present`` are those of the whole page."""
    meanings = [MEANINGS[name] for name in sorted(present)]
    engine = next(((each.kind, each.prefix) for each in meanings if each.kind is not None), None)
    if engine is None:
        return []
    names = set(_engine_names(*engine, present, with_latencies=with_latencies))
    has_start = any(MEANINGS[name.encode()].quantity is EngineMark.CREATED for name in names)
    if PROCESS_START.encode() in present and not has_start:
        names.add(PROCESS_START)
    return sorted(names)


def _engine_names(
    kind: EngineKind, prefix: str, present: frozenset[bytes], *, with_latencies: bool
) -> Iterator[str]:
    """Yield the newest present name of each quantity, and those that appear later: with drafts, or ends."""
    for quantity, row in kind.names.items():
        if quantity in HISTOGRAMS and not with_latencies:
            continue
        names = [prefix + name for name in row]
        if kind.counts_at_end:  # their counters appear when the first request ends
            yield from names
            continue
        newest = next((name for name in names if name.encode() in present), None)
        if newest is not None or quantity in SPECULATION:
            yield newest or names[0]


def filtered_url(url: str, names: list[str]) -> str:
    """Return the URL of a page with only these samples: a path with a final slash, and the names as query."""
    parts = urlsplit(url)
    path = parts.path if parts.path.endswith("/") else f"{parts.path}/"
    query = "&".join(f"name[]={quote(name, safe=':')}" for name in names)
    return urlunsplit((parts.scheme, parts.netloc, path, "&".join(filter(None, (parts.query, query))), ""))
