"""Renderings of /metrics: shared while they are new, and bounded in memory while they are read."""

import asyncio
import gzip
from contextlib import ExitStack
from unittest.mock import Mock

from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.web.metrics_page import SharedPage
from tests.unit.web.plain_state import Gauges

TEXT, OPEN = Format.TEXT_0_0_4, Format.OPENMETRICS_1_0_0


async def test_requests_of_a_snapshot_share_one_rendering_of_each_format():
    page = Gauges(series=500)
    shared = SharedPage(page)
    snapshot = Snapshot(number=1)
    wanted = [(TEXT, False), (TEXT, True), (Format.TEXT_1_0_0, False), (OPEN, False), (OPEN, True)] * 20
    found = await asyncio.gather(*(shared.rendering(snapshot, each, gzip=small) for each, small in wanted))
    assert sorted(page.rendered) == sorted([TEXT, TEXT, OPEN, OPEN])
    assert len(set(found)) == 4
    assert gzip.decompress(b"".join(found[1].pieces)) == b"".join(found[0].pieces)
    await shared.rendering(Snapshot(number=2), TEXT, gzip=False)
    assert page.rendered[-1] == TEXT


async def test_a_request_that_waited_gets_the_newer_snapshot_that_was_rendered_meanwhile():
    shared = SharedPage(Gauges())
    await shared.rendering(Snapshot(number=2), TEXT, gzip=False)
    assert (await shared.rendering(Snapshot(number=1), TEXT, gzip=False)).snapshot == 2


async def test_above_the_limit_the_oldest_unread_rendering_is_aborted():
    """A slow client with a request every second takes at most the limit."""
    size = (await SharedPage(Gauges()).rendering(Snapshot(number=1), TEXT, gzip=False)).size
    shared = SharedPage(Gauges(), max_bytes=3 * size)
    transports = []
    with ExitStack() as reading:
        for number in range(6):
            rendering = await shared.rendering(Snapshot(number=number), TEXT, gzip=False)
            transports.append(Mock(asyncio.Transport))
            reading.enter_context(shared.read(rendering, transports[-1]))
            assert shared.size <= 3 * size
    assert [each.abort.called for each in transports] == [True, True, True, False, False, False]
    assert shared.size == size


async def test_a_replaced_rendering_is_freed_once_nobody_reads_it():
    shared = SharedPage(Gauges())
    first = await shared.rendering(Snapshot(number=1), TEXT, gzip=False)
    with shared.read(first, Mock(asyncio.Transport)):
        second = await shared.rendering(Snapshot(number=2), TEXT, gzip=False)
        assert shared.size == first.size + second.size
    assert shared.size == second.size
