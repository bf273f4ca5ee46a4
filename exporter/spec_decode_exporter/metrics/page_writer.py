"""Interface of the writers of a page, and the formats' texts above and below their lines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from prometheus_client import Metric as Family
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import ALLOWUTF8
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.registry import Collector

from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.monitor.snapshot import Snapshot

END: Final = {Format.TEXT_0_0_4: "", Format.TEXT_1_0_0: "", Format.OPENMETRICS_1_0_0: "# EOF\n"}
"""Last line of a page."""


class Piece(NamedTuple):
    """Part of a page."""

    text: str
    work: int
    """Lines and reads that it took."""


class PageWriter(Protocol):
    """Writer of some families of a page."""

    def pieces(self, snapshot: Snapshot, format_: Format) -> Iterator[Piece]:
        """Yield the families in pieces of about ``PIECE_WORK``; polls run in between."""


PIECE_WORK: Final = 128
"""Lines and reads of a piece: a fraction of a millisecond."""


def library_text(family: Family, format_: Format) -> str:
    """Return a family as prometheus_client writes it."""
    # The names are valid in every scheme. Escaping them letter by letter would take a third of the time.
    if END[format_]:
        page: bytes = write_openmetrics(_Single(family), escaping=ALLOWUTF8)  # type: ignore[no-untyped-call]
        return page.decode().removesuffix(END[format_])
    return write_text(_Single(family), escaping=ALLOWUTF8).decode()


@lru_cache(maxsize=1024)
def header(name: str, documentation: str, kind: str, format_: Format) -> str:
    """Return the lines above the samples of a family: ``# HELP`` and ``# TYPE``."""
    return library_text(Family(name, documentation, kind), format_)


class _Single(Collector):
    """Collector of one family: prometheus_client's writers require a collector."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterator[Family]:
        yield self._family
