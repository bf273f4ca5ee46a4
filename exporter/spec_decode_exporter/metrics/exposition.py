"""Metric families to the bytes of a page, without ever holding up the polls.

prometheus_client writes the lines above a family, ``sample_lines`` those of its samples, slice by slice. The
page yields to the event loop after each slice, so that no poll waits for more than a millisecond or two.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import ALLOWUTF8
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.registry import Collector

from spec_decode_exporter.core.cooperative_yield import Pace, yield_to_event_loop
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.sample_lines import sample_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence

SLICE: Final = 128
"""Samples that are written in one go: less than a millisecond of work."""

_PACKED: Final = 64 * 1024
"""Bytes that are compressed in one go: less than a millisecond of work."""

PIECE: Final = 64 * 1024
"""Bytes that are sent in one go."""

_END: Final = b"# EOF\n"

_log = structlog.get_logger()


class _Single(Collector):
    """A registry of one family without samples, which is what prometheus_client's writers take."""

    def __init__(self, family: Metric) -> None:
        self._family = Metric(family.name, family.documentation, family.type, family.unit)

    def collect(self) -> Iterator[Metric]:
        yield self._family


# Our names are valid in every scheme. This is the one that does not escape them letter by letter, which takes
# a third of the whole time.
def _as_text(single: _Single) -> bytes:
    return write_text(single, escaping=ALLOWUTF8)


def _as_openmetrics(single: _Single) -> bytes:
    page: bytes = write_openmetrics(single, escaping=ALLOWUTF8)  # type: ignore[no-untyped-call]
    return page.removesuffix(_END)


_WRITERS: Final[dict[Format, tuple[Callable[[_Single], bytes], bytes]]] = {
    Format.TEXT_0_0_4: (_as_text, b""),
    Format.TEXT_1_0_0: (_as_text, b""),
    Format.OPENMETRICS_1_0_0: (_as_openmetrics, _END),
}


def same_page(format_: Format) -> Format:
    """Return the first format with the same bytes: the versions of a format may differ in headers alone."""
    return next(each for each, writer in _WRITERS.items() if writer == _WRITERS[format_])


class Exposition:
    """Renders what a fixed set of collectors gives, and remembers which of them fail.

    A collector should be a generator: it is asked for one family at a time, and the polls run in between. One
    whose families must agree with each other takes what it needs before it yields the first.
    """

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = {f"{type(each).__name__} {n}": each for n, each in enumerate(collectors, 1)}
        self._failing: set[str] = set()

    async def render(self, format_: Format) -> AsyncIterator[bytes]:
        """Yield the page in pieces. What fails is left out and logged once, the rest of the page stands.

        The pieces are not kept: who packs each as it comes never has the whole of a large page in memory.
        """
        write, end = _WRITERS[format_]
        pace = Pace(SLICE)
        for name, collector in self._collectors.items():
            for family in self._collect(name, collector):
                await pace.done(len(family.samples) + 1)
                for piece in await self._write(family, write, pace):
                    yield piece
        yield end

    def _collect(self, name: str, collector: Collector) -> Iterator[Metric]:
        try:
            yield from collector.collect()
        except Exception as error:  # noqa: BLE001  whatever one collector does, the others are served
            self._note(name, error)
        else:
            self._failing.discard(name)

    async def _write(self, family: Metric, write: Callable[[_Single], bytes], pace: Pace) -> list[bytes]:
        """Return a family in slices, all of it or nothing."""
        created = f"{family.name}_created"
        samples = [sample for sample in family.samples if sample.name != created]
        pieces: list[bytes] = []
        try:
            pieces.append(write(_Single(family)))
            for start in range(0, len(samples), SLICE):
                part = samples[start : start + SLICE]
                pieces.append(sample_lines(part).encode())
                await pace.done(len(part) + 1)
        except Exception as error:  # noqa: BLE001  a family that cannot be written is no reason to serve none
            self._note(family.name, error)
            return []
        self._failing.discard(family.name)
        return pieces

    def _note(self, name: str, error: Exception) -> None:
        if name not in self._failing:
            self._failing.add(name)
            _log.error("metrics_left_out", source=name, exc_info=error)


async def each(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Yield pieces that are all there already."""
    for piece in pieces:
        yield piece


async def compressed(page: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the page as one gzip stream, at the fastest level: the others cost much more than they save."""
    stream = zlib.compressobj(level=1, wbits=31)
    async for piece in page:
        for start in range(0, len(piece), _PACKED):
            packed = stream.compress(piece[start : start + _PACKED])
            if packed:  # the compressor takes some tens of kilobytes before it does any work
                yield packed
                await yield_to_event_loop()
    yield stream.flush()


async def compress(page: AsyncIterable[bytes]) -> bytes:
    """Return the page as one gzip stream."""
    return b"".join([piece async for piece in compressed(page)])


async def joined(page: AsyncIterable[bytes]) -> AsyncIterable[bytes]:
    """Yield the pieces joined to some that are worth a system call each."""
    parts: list[bytes] = []
    size = 0
    async for piece in page:
        parts.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)
