"""Render a page by its writers: failures, formats, and other tasks in between."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from structlog.testing import capture_logs

from spec_decode_exporter.metrics.exposition import Exposition, same_page
from spec_decode_exporter.metrics.library_writer import LibraryWriter
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.metrics.page_writer import PIECE_WORK, Piece, header
from spec_decode_exporter.monitor.snapshot import Snapshot

WRITERS = {
    Format.TEXT_0_0_4: write_text,
    Format.TEXT_1_0_0: write_text,
    Format.OPENMETRICS_1_0_0: write_openmetrics,
}


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


def every_kind():
    counter = CounterMetricFamily("c", "Counts.\nTwo lines.", labels=["model_name"])
    counter.add_metric(['a "quoted" \\ name\nof two lines'], 3, created=1e9)
    histogram = HistogramMetricFamily("h", "Spreads.", labels=["model_name"])
    histogram.add_metric(["m"], buckets=[("0.1", 1), ("1.0", 2), ("+Inf", 2)], sum_value=0.9)
    info = InfoMetricFamily("i", "Says.", labels=["model_name"])
    info.add_metric(["m"], {"version": "1.2"})
    return [counter, GaugeMetricFamily("g", "Some gauge.", value=0.5), histogram, info]


async def page(writers, format_=Format.TEXT_0_0_4):
    return b"".join([piece async for piece in Exposition(writers).render(Snapshot(), format_)]).decode()


@pytest.mark.parametrize("format_", Format)
async def test_the_families_of_a_library_s_collector_are_written_by_the_library(format_):
    expected = WRITERS[format_](Given(*every_kind())).decode()
    kept = [line for line in expected.splitlines(keepends=True) if "_created" not in line]
    assert len(kept) < len(expected.splitlines())
    assert await page([LibraryWriter(Given(*every_kind()))], format_) == "".join(kept)


async def test_a_family_that_the_library_cannot_write_is_omitted_alone_and_logged_once():
    bad = GaugeMetricFamily("bad", "Bad.", labels=["target"])
    bad.add_metric([object()], 1.0)
    good = GaugeMetricFamily("good", "Good.", value=1)
    writer = LibraryWriter(Given(good, bad, good))
    with capture_logs() as logs:
        pages = [await page([writer]) for _ in range(2)]
    assert pages == [2 * "# HELP good Good.\n# TYPE good gauge\ngood 1.0\n"] * 2
    assert [(log["event"], log["source"]) for log in logs] == [("metrics_left_out", "bad")]


@pytest.mark.parametrize("format_", Format)
def test_the_lines_above_a_family_are_those_of_the_library(format_):
    family = GaugeMetricFamily("g", 'Of "drafts" \\ and\nmore.')
    found = header("g", 'Of "drafts" \\ and\nmore.', "gauge", format_)
    assert found.encode() == WRITERS[format_](Given(family)).removesuffix(b"# EOF\n")


def test_formats_with_the_same_bytes_share_a_page():
    assert [same_page(format_) for format_ in Format] == [
        Format.TEXT_0_0_4,
        Format.TEXT_0_0_4,
        Format.OPENMETRICS_1_0_0,
    ]


async def test_a_failing_writer_omits_its_own_pieces_only():
    writers = [
        Given(piece("first")),
        Given(piece("before"), ValueError("no"), piece("after")),
        Given(piece("last")),
    ]
    with capture_logs():
        assert await page(writers) == "first\nbefore\nlast\n"


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


async def turns_during(writer):
    """Return how often another task runs while a page is rendered."""
    turns = 0

    async def poll():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    polling = asyncio.create_task(poll())
    await page([writer])
    polling.cancel()
    return turns


async def test_other_tasks_run_after_each_large_piece():
    assert await turns_during(Given(*[piece("x", PIECE_WORK)] * 100)) >= 100


async def test_many_small_pieces_share_a_cooperative_yield():
    assert await turns_during(Given(*[piece("x", 2)] * 70)) <= 4
