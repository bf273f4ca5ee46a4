"""Which page to ask for: vLLM answers ``/metrics/?name[]=…`` with just the samples that are named.

That costs the server a ninth of a whole page. But a server with several API processes answers it
with an empty page, another path ignores it, and a proxy may refuse it. So a filtered page is only
trusted while it has every series that the whole page had.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlsplit, urlunsplit

from exporter.scrape.engines import MEANINGS, PROCESS_START, Counter, EngineKind, Latency, Mark
from exporter.scrape.page import Series

_LAZY = frozenset({Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS, Mark.POSITION_ACCEPTED})
"""Series that some front ends create with the first draft: asked for although the page lacks them."""


class PageChoice:
    """Chooses between the filtered and the whole page of one target."""

    def __init__(self, url: str, *, enabled: bool) -> None:
        """Begin with the whole page of ``url``; stay with it unless ``enabled``."""
        self._url = url
        self._enabled = enabled
        self._names: frozenset[bytes] = frozenset()
        self._expected: frozenset[Series] = frozenset()
        self._refused: set[bool] = set()

    def filtered(self, *, with_latencies: bool) -> str | None:
        """Return the address of the filtered page, or None if the whole page is to be asked for."""
        if not self._enabled or not self._names or with_latencies in self._refused:
            return None
        names = wanted_names(self._names, with_latencies=with_latencies)
        return filtered_url(self._url, names) if names else None

    def is_complete(self, series: frozenset[Series]) -> bool:
        """Return whether a filtered page has what the last trusted page had, histograms apart."""
        return self._expected <= series

    def trust(self, series: frozenset[Series]) -> None:
        """Take a filtered page's series as what the next one must have."""
        self._expected = series

    def learn(self, names: frozenset[bytes], series: frozenset[Series]) -> None:
        """Take a whole page as what the server has; ``names`` is empty if its histograms were not read."""
        self._names = self._names | names
        asked = {name.encode() for name in wanted_names(self._names, with_latencies=False)}
        self._expected = frozenset(one for one in series if one.name in asked)

    def refuse(self, *, with_latencies: bool) -> None:
        """Note that the server did not give a filtered page that has everything."""
        self._refused.add(with_latencies)

    def forget(self) -> None:
        """Begin anew after a restart of the server: it may be another one."""
        self._names = frozenset()
        self._expected = frozenset()
        self._refused.clear()


def wanted_names(present: frozenset[bytes], *, with_latencies: bool) -> list[str]:
    """Return the sample names to ask for, given those that the whole page has; sorted, none twice."""
    meanings = [MEANINGS[name] for name in present]
    found = next(((one.kind, one.prefix) for one in meanings if one.kind is not None), None)
    if found is None or found[0] is None:
        return []
    names = set(_engine_names(found[0], found[1], present, with_latencies=with_latencies))
    start = PROCESS_START.names[0]
    if (
        not any(MEANINGS[name.encode()].quantity is Mark.CREATED for name in names)
        and start.encode() in present
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
        if there or series.quantity in _LAZY:
            yield there[0] if there else names[0]


def filtered_url(url: str, names: list[str]) -> str:
    """Return the address of a page of just these samples: the path with a slash, the names as its query."""
    parts = urlsplit(url)
    path = parts.path if parts.path.endswith("/") else f"{parts.path}/"
    query = "&".join(f"name[]={quote(name, safe=':')}" for name in names)
    return urlunsplit((parts.scheme, parts.netloc, path, "&".join(filter(None, (parts.query, query))), ""))
