"""Choice between the whole page and the filtered page, ``/metrics/?name[]=…``, of a server.

A filtered page costs vLLM a ninth of a whole page. But a server with several API processes returns an empty
one, another path ignores the filter, and a proxy may reject it or close the connection. So a filtered page is
trusted only while it has every series of the whole page.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
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
from spec_decode_exporter.scrape.layout import ParsedSeries
from spec_decode_exporter.scrape.sample import PageSeries

_MAX_DOUBTS: Final = 2
"""Consecutive failed requests for a filtered page until it is refused; server failures count too."""


class PageChoice:
    """Chooses between the whole and the filtered page; those with and without histograms are judged apart."""

    def __init__(self, url: str, *, enabled: bool) -> None:
        """Begin with the whole page of ``url``; stay with it unless ``enabled``."""
        self._url = url
        self._enabled = enabled
        self.reset()

    def reset(self) -> None:
        """Start again from the whole page: after a restart another server may answer."""
        self._names: frozenset[bytes] = frozenset()
        self._requested: dict[bool, frozenset[bytes]] = {}
        self._urls: dict[bool, str] = {}
        self._expected: frozenset[ParsedSeries] = frozenset()
        self._complete: dict[bool, PageSeries] = {}
        """The last complete filtered page, with histograms (True) and without (False)."""
        self._doubts = 0
        self._refused: set[bool] = set()

    def filtered(self, *, with_latencies: bool) -> str | None:
        """Return the URL of the filtered page; None if the whole page is required."""
        return None if with_latencies in self._refused else self._urls.get(with_latencies)

    def learn(self, shown: PageSeries, *, with_latencies: bool) -> None:
        """Learn the server's series from a whole page, read with or without histograms."""
        if not self._enabled:
            return
        if not shown.names <= self._names or with_latencies not in self._requested:
            self._names |= shown.names
            for tier in {False, with_latencies}:
                names = wanted_names(self._names, with_latencies=tier)
                self._requested[tier] = _encoded(tuple(names))
                if names:
                    self._urls[tier] = filtered_url(self._url, names)
        self._complete.clear()
        self._expected = frozenset(series for series in shown.series if series.name in self._requested[False])

    def is_complete(self, shown: PageSeries, *, with_latencies: bool) -> bool:
        """Return whether a filtered page has all series of the last trusted page; any bucket counts."""
        if self._complete.get(with_latencies) is shown and self._expected is shown.series:
            return True  # as the one before it: both have the same layout
        requested = self._requested.get(with_latencies, frozenset())
        return self._expected <= shown.series and requested & self._names <= shown.names

    def trust(self, shown: PageSeries, *, with_latencies: bool) -> None:
        """Require the series of this filtered page from the next one."""
        self._complete[with_latencies] = shown
        self._expected = shown.series
        self._doubts = 0

    def doubt(self, *, with_latencies: bool) -> None:
        """Count a failed request: the server may be down, or may reject filters."""
        self._doubts += 1
        if self._doubts >= _MAX_DOUBTS:
            self.refuse(with_latencies=with_latencies)

    def refuse(self, *, with_latencies: bool) -> None:
        """Request whole pages from now on: the filtered page is incomplete."""
        self._refused.add(with_latencies)


@lru_cache(maxsize=64)
def _encoded(names: tuple[str, ...]) -> frozenset[bytes]:
    """Return names as on a page; servers of one kind have the same, and share one set."""
    return frozenset(name.encode() for name in names)


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
