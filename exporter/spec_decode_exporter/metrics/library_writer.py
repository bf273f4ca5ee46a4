"""Write the families of a prometheus_client collector, such as those of the process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import structlog
from prometheus_client import Metric as Family
from prometheus_client.registry import Collector

from spec_decode_exporter.core.once_until_recovered import OnceUntilRecovered
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.page_writer import Piece, library_text
from spec_decode_exporter.monitor.snapshot import Snapshot

_log = structlog.get_logger()


class LibraryWriter:
    """Writer of a collector's families; one that cannot be written is omitted, and logged once."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._failures: defaultdict[str, OnceUntilRecovered] = defaultdict(OnceUntilRecovered)

    def pieces(self, _: Snapshot, format_: Format) -> Iterator[Piece]:
        """Yield each family as a piece: a collector of the library has few samples."""
        for family in self._collector.collect():
            try:
                text = library_text(_without_creation(family), format_)
            except Exception as error:  # noqa: BLE001  the others are served
                if self._failures[family.name].failed():
                    _log.error("metrics_left_out", source=family.name, exc_info=error)
                continue
            self._failures[family.name].recovered()
            yield Piece(text, len(family.samples) + 1)


def _without_creation(family: Family) -> Family:
    """Return the family without times of creation: Prometheus has no use for them."""
    kept = Family(family.name, family.documentation, family.type, family.unit)
    kept.samples = [sample for sample in family.samples if sample.name != f"{family.name}_created"]
    return kept
