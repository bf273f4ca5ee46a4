from __future__ import annotations

from contextlib import ExitStack

import pytest

from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.web import metrics_page as module
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.metrics_page import METRICS, Representation, SharedPage
from tests.web.conftest import Gauges

TEXT = Representation(Format.TEXT_0_0_4, gzip=False)


class Counted(Gauges):
    """A page that counts its renderings."""

    def __init__(self, series=1):
        super().__init__(series)
        self.rendered = []

    async def render(self, snapshot, format_):
        self.rendered.append(format_)
        async for piece in super().render(snapshot, format_):
            yield piece


class Transport:
    def __init__(self):
        self.aborted = False

    def abort(self):
        self.aborted = True


@pytest.fixture
def client_of(aiohttp_client, make_state):
    """Return a function that returns a client of an application with ``exposition``."""

    async def make(exposition, numbers=(1,)):
        remaining = list(numbers)

        async def taken():
            return Snapshot(number=remaining.pop(0) if len(remaining) > 1 else remaining[0])

        app = create_app(make_state(snapshot=taken))
        app[METRICS] = SharedPage(exposition)
        return await aiohttp_client(app, auto_decompress=False, skip_auto_headers=["Accept-Encoding"])

    return make


async def test_above_the_limit_the_oldest_unread_rendering_is_aborted():
    """A slow client with a request every second takes at most the limit."""
    size = (await SharedPage(Counted()).rendering(Snapshot(number=1), TEXT)).size
    shared = SharedPage(Counted(), max_bytes=3 * size)
    transports = []
    with ExitStack() as reading:
        for number in range(6):
            rendering = await shared.rendering(Snapshot(number=number), TEXT)
            transports.append(Transport())
            reading.enter_context(rendering.read_by(transports[-1]))
            assert sum(one.size for one in shared.alive) <= 3 * size
    assert [each.aborted for each in transports] == [True, True, True, False, False, False]


async def test_a_client_that_does_not_read_in_time_is_disconnected(client_of, monkeypatch):
    monkeypatch.setattr(module, "SEND_SECONDS", 0)
    client = await client_of(Counted(series=200_000))
    with pytest.raises(Exception, match=r"(?i)disconnected|payload|reset"):
        await (await client.get("/metrics")).read()
