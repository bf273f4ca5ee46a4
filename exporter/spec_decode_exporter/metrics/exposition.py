"""Render metric families as a page, without delaying polls.

prometheus_client writes the header of a family, ``sample_lines`` its samples, slice by slice. Rendering
yields to the event loop after each slice, so that polls wait for at most two milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import Metric
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import ALLOWUTF8
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.registry import Collector

from spec_decode_exporter.core.cooperative_yield import Pace
from spec_decode_exporter.core.once_until_recovered import OnceUntilRecovered
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.sample_lines import sample_lines

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

SLICE: Final = 128
"""Samples of a slice: less than a millisecond of work."""

_END: Final = b"# EOF\n"

_log = structlog.get_logger()


class _Single(Collector):
    """Collector of one family without samples: prometheus_client's writers require a collector."""

    def __init__(self, family: Metric) -> None:
        self._family = Metric(family.name, family.documentation, family.type, family.unit)

    def collect(self) -> Iterator[Metric]:
        yield self._family


# The names are valid in every scheme. Escaping them letter by letter would take a third of the time.
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
    """Return the first format with the same bytes: versions may differ in headers alone."""
    return next(each for each, writer in _WRITERS.items() if writer == _WRITERS[format_])


class Exposition:
    """Renderer of a fixed set of collectors, which remembers those that fail.

    A collector should be a generator: polls run between its families. If its families must be consistent, it
    takes a snapshot before it yields the first.
    """

    def __init__(self, collectors: Sequence[Collector]) -> None:
        self._collectors = {f"{type(each).__name__} {n}": each for n, each in enumerate(collectors, 1)}
        self._failures: defaultdict[str, OnceUntilRecovered] = defaultdict(OnceUntilRecovered)

    async def render(self, format_: Format) -> AsyncIterator[bytes]:
        """Yield the page in pieces; omit a collector or family that fails, and log it once.

        The pieces are not kept, so that a large page is never in memory as a whole.
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
        except Exception as error:  # noqa: BLE001  the others are served
            self._note(name, error)
        else:
            self._failures[name].recovered()

    async def _write(self, family: Metric, write: Callable[[_Single], bytes], pace: Pace) -> list[bytes]:
        """Return all slices of a family, or none if one fails."""
        created = f"{family.name}_created"
        samples = [sample for sample in family.samples if sample.name != created]
        pieces: list[bytes] = []
        try:
            pieces.append(write(_Single(family)))
            for start in range(0, len(samples), SLICE):
                part = samples[start : start + SLICE]
                pieces.append(sample_lines(part).encode())
                await pace.done(len(part) + 1)
        except Exception as error:  # noqa: BLE001  the others are served
            self._note(family.name, error)
            return []
        self._failures[family.name].recovered()
        return pieces

    def _note(self, name: str, error: Exception) -> None:
        if self._failures[name].failed():
            _log.error("metrics_left_out", source=name, exc_info=error)
