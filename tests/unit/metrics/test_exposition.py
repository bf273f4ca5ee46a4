"""Render a page by its writers: failures, formats, and other tasks in between."""

from __future__ import annotations

from prometheus_client.core import (
    GaugeMetricFamily,
)
from structlog.testing import capture_logs

from spec_decode_exporter.metrics.exposition import Exposition
from spec_decode_exporter.metrics.library_writer import LibraryWriter
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.page_writer import Piece
from spec_decode_exporter.monitor.snapshot import Snapshot


class Given:
    """A writer of given pieces, or a collector of given families; an exception is raised at its place."""

    def __init__(self, *items):
        self.items = items

    def pieces(self, _snapshot, _format):
        return self.collect()

    def collect(self):
        for item in self.items:
            if isinstance(item, Exception):
                raise item
            yield item


def piece(text, work=1):
    return Piece(f"{text}\n", work)


async def page(writers, format_=Format.TEXT_0_0_4):
    return b"".join([piece async for piece in Exposition(writers).render(Snapshot(), format_)]).decode()


async def test_a_family_that_the_library_cannot_write_is_omitted_alone_and_logged_once():
    bad = GaugeMetricFamily("bad", "Bad.", labels=["target"])
    bad.add_metric([object()], 1.0)
    good = GaugeMetricFamily("good", "Good.", value=1)
    writer = LibraryWriter(Given(good, bad, good))
    with capture_logs() as logs:
        pages = [await page([writer]) for _ in range(2)]
    assert pages == [2 * "# HELP good Good.\n# TYPE good gauge\ngood 1.0\n"] * 2
    assert [(log["event"], log["source"]) for log in logs] == [("metrics_left_out", "bad")]


async def test_a_lasting_failure_is_logged_once_and_again_when_it_comes_back():
    failing = Given(ValueError("no"))
    exposition = Exposition([failing])
    with capture_logs() as logs:
        for items in ((ValueError("no"),), (ValueError("no"),), (), (ValueError("again"),)):
            failing.items = items
            assert [text async for text in exposition.render(Snapshot(), Format.TEXT_0_0_4)] == [b""]
    assert [(log["event"], log["source"], str(log["exc_info"])) for log in logs] == [
        ("metrics_left_out", "Given 1", "no"),
        ("metrics_left_out", "Given 1", "again"),
    ]
