"""Render a page by its writers, without delaying polls: they run after every slice."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import structlog

from spec_decode_exporter.core.cooperative_yield import Pace
from spec_decode_exporter.core.once_until_recovered import OnceUntilRecovered
from spec_decode_exporter.metrics.page_writer import END, PIECE_WORK, PageWriter, Piece

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from spec_decode_exporter.metrics.negotiation import Format
    from spec_decode_exporter.monitor.snapshot import Snapshot

_log = structlog.get_logger()


def same_page(format_: Format) -> Format:
    """Return the first format with the same bytes: versions may differ in headers alone."""
    return next(each for each in END if END[each] == END[format_])


class Exposition:
    """Renderer of a fixed set of writers, which remembers those that fail."""

    def __init__(self, writers: Sequence[PageWriter]) -> None:
        self._writers = {f"{type(each).__name__} {n}": each for n, each in enumerate(writers, 1)}
        self._failures: defaultdict[str, OnceUntilRecovered] = defaultdict(OnceUntilRecovered)

    async def render(self, snapshot: Snapshot, format_: Format) -> AsyncIterator[bytes]:
        """Yield the page of a snapshot in pieces; end the part of a writer that fails, and log it once.

        The pieces are not kept, so that a large page is never in memory as a whole.
        """
        pace = Pace(PIECE_WORK)
        for name, writer in self._writers.items():
            for piece in self._pieces(name, writer, snapshot, format_):
                yield piece.text.encode()
                await pace.done(piece.work)
        yield END[format_].encode()

    def _pieces(self, name: str, writer: PageWriter, snapshot: Snapshot, format_: Format) -> Iterator[Piece]:
        try:
            yield from writer.pieces(snapshot, format_)
        except Exception as error:  # noqa: BLE001  the others are served
            if self._failures[name].failed():
                _log.error("metrics_left_out", source=name, exc_info=error)
        else:
            self._failures[name].recovered()
