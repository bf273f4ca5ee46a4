"""Which page to ask for: vLLM answers ``/metrics/?name[]=…`` with just the samples that are named.

That costs the server a ninth of a whole page. But a server with several API processes answers it
with an empty page, another path ignores it, and a proxy may refuse it or cut the connection. So a
filtered page is only trusted while it has every series that the whole page had.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlsplit, urlunsplit

from spec_decode_exporter.scrape.page.engine_table import (
    MEANINGS,
    PROCESS_START,
    EngineKind,
    EngineMark,
    Latency,
)
from spec_decode_exporter.scrape.page.layout_map import PageSeries
from spec_decode_exporter.scrape.page.parser import ParsedSeries

_MAX_DOUBTS = 2
"""So often may asking for a filtered page fail with no success between, as it does where servers fail."""


class PageChoice:
    """Chooses between the filtered and the whole page of one target."""

    def __init__(self, url: str, *, enabled: bool) -> None:
        """Begin with the whole page of ``url``; stay with it unless ``enabled``."""
        self._url = url
        self._enabled = enabled
        self.forget()

    def forget(self) -> None:
        """Begin anew after a restart of the server: it may be another one."""
        self._names: frozenset[bytes] = frozenset()
        self._asked: dict[bool, frozenset[bytes]] = {}
        self._urls: dict[bool, str] = {}
        self._expected: frozenset[ParsedSeries] = frozenset()
        self._doubts = 0
        self._refused: set[bool] = set()

    def filtered(self, *, with_latencies: bool) -> str | None:
        """Return the address of the filtered page, or None if the whole page is to be asked for."""
        return None if with_latencies in self._refused else self._urls.get(with_latencies)

    def learn(self, shown: PageSeries, *, with_latencies: bool) -> None:
        """Take a whole page, read with or without its histograms, as what the server has."""
        if not self._enabled:
            return
        if not shown.names <= self._names or with_latencies not in self._asked:
            self._names |= shown.names
            for tier in {False, with_latencies}:
                self._ask_for(wanted_names(self._names, with_latencies=tier), with_latencies=tier)
        self._expected = frozenset(one for one in shown.series if one.name in self._asked[False])

    def is_complete(self, shown: PageSeries, *, with_latencies: bool) -> bool:
        """Return whether a filtered page has what the last trusted page had; of histograms, any bucket."""
        asked = self._asked.get(with_latencies, frozenset())
        return self._expected <= shown.series and asked & self._names <= shown.names

    def trust(self, shown: PageSeries) -> None:
        """Take a filtered page's series as what the next one must have."""
        self._expected = shown.series
        self._doubts = 0

    def doubt(self, *, with_latencies: bool) -> None:
        """Note that nothing came of asking for a filtered page: the server may be down, or not like it."""
        self._doubts += 1
        if self._doubts >= _MAX_DOUBTS:
            self.refuse(with_latencies=with_latencies)

    def refuse(self, *, with_latencies: bool) -> None:
        """Note that the server does not give a filtered page that has everything."""
        self._refused.add(with_latencies)

    def _ask_for(self, names: list[str], *, with_latencies: bool) -> None:
        self._asked[with_latencies] = frozenset(name.encode() for name in names)
        if names:
            self._urls[with_latencies] = filtered_url(self._url, names)


def wanted_names(present: frozenset[bytes], *, with_latencies: bool) -> list[str]:
    """Return the sample names to ask for, given those that the whole page has; sorted, none twice."""
    meanings = [MEANINGS[name] for name in sorted(present)]
    found = next(((one.kind, one.prefix) for one in meanings if one.kind is not None), None)
    if found is None:
        return []
    names = set(_engine_names(*found, present, with_latencies=with_latencies))
    start = PROCESS_START.names[0]
    if start.encode() in present and not any(
        MEANINGS[one.encode()].quantity is EngineMark.CREATED for one in names
    ):
        names.add(start)
    return sorted(names)


def _engine_names(
    kind: EngineKind, prefix: str, present: frozenset[bytes], *, with_latencies: bool
) -> Iterator[str]:
    for series in kind.series:
        if isinstance(series.quantity, Latency) and not with_latencies:
            continue
        names = [prefix + name for name in series.names]
        there = [name for name in names if name.encode() in present]
        if there or series.lazy:
            yield there[0] if there else names[0]


def filtered_url(url: str, names: list[str]) -> str:
    """Return the address of a page of just these samples: the path with a slash, the names as its query."""
    parts = urlsplit(url)
    path = parts.path if parts.path.endswith("/") else f"{parts.path}/"
    query = "&".join(f"name[]={quote(name, safe=':')}" for name in names)
    return urlunsplit((parts.scheme, parts.netloc, path, "&".join(filter(None, (parts.query, query))), ""))
