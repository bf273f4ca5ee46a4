from __future__ import annotations

import asyncio
import gzip
from contextlib import ExitStack
from itertools import count

import pytest

from spec_decode_exporter.core.single_flight import SingleFlight
from spec_decode_exporter.metrics.exposition import Exposition
from spec_decode_exporter.metrics.negotiation import Format
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.web import metrics_page as module
from spec_decode_exporter.web.application import create_app
from spec_decode_exporter.web.metrics_page import METRICS, Representation, SharedPage
from tests.conftest import FakeClock
from tests.web.conftest import Gauges

IDENTITY = {"Accept-Encoding": "identity"}
OPENMETRICS = {"Accept": "application/openmetrics-text;version=1.0.0"}
TEXT = Representation(Format.TEXT_0_0_4, gzip=False)


class Counted(Exposition):
    """An exposition that counts its renderings."""

    def __init__(self, series=1):
        super().__init__([Gauges(series)])
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
        app[METRICS] = SharedPage(exposition, FakeClock())
        return await aiohttp_client(app, auto_decompress=False, skip_auto_headers=["Accept-Encoding"])

    return make


async def test_all_requests_for_a_snapshot_share_one_rendering(client_of):
    exposition = Counted()
    client = await client_of(exposition)
    answers = await asyncio.gather(*(client.get("/metrics") for _ in range(40)))
    assert len({await answer.read() for answer in answers}) == 1
    assert len(exposition.rendered) == 1


async def test_a_new_snapshot_is_rendered_again(client_of):
    exposition = Counted()
    client = await client_of(exposition, [1, 2, 2])
    for _ in range(3):
        await client.get("/metrics")
    assert len(exposition.rendered) == 2


async def test_a_request_that_waits_gets_the_newer_snapshot():
    """Requests that wait for successive renderings must share the newest one."""
    exposition = Counted()
    shared = SharedPage(exposition, FakeClock())
    for number in (1, 2, 1, 2, 1):
        await shared.rendering(Snapshot(number=number), TEXT)
    assert len(exposition.rendered) == 2


async def test_a_compressed_page_is_made_once_from_the_plain_one(client_of):
    exposition = Counted(series=500)
    client = await client_of(exposition)
    plain = await (await client.get("/metrics")).read()
    for _ in range(2):
        packed = await (await client.get("/metrics", headers={"Accept-Encoding": "gzip"})).read()
        assert gzip.decompress(packed) == plain
    assert len(exposition.rendered) == 1


async def test_formats_share_a_rendering_only_if_their_bytes_are_equal(client_of):
    exposition = Counted()
    client = await client_of(exposition)
    await client.get("/metrics", headers=OPENMETRICS)
    await client.get("/metrics")
    again = await client.get("/metrics", headers={"Accept": "text/plain;version=1.0.0"})
    assert again.headers["Content-Type"] == Format.TEXT_1_0_0.content_type
    assert exposition.rendered == [Format.OPENMETRICS_1_0_0, Format.TEXT_0_0_4]


async def test_a_rendering_expires(monkeypatch, until):
    monkeypatch.setattr(module, "SHARED_SECONDS", 0)
    shared = SharedPage(Counted(), FakeClock())
    await shared.rendering(Snapshot(number=1), TEXT)
    await until(lambda: not shared.alive)


async def test_a_kept_page_is_served_until_its_time_is_over(clock, aiohttp_client, make_state):
    exposition, numbers = Counted(), count(1)

    async def taken():
        return Snapshot(number=next(numbers))

    app = create_app(make_state(snapshot=taken))
    shared = app[METRICS] = SharedPage(exposition, clock)
    client = await aiohttp_client(app)
    await client.get("/metrics", headers=IDENTITY)
    shared.keep(TEXT, seconds=60.0)
    shared.keep(TEXT, seconds=1.0)  # for another client
    clock.now += 59.0
    await client.get("/metrics", headers=IDENTITY)
    assert len(exposition.rendered) == 1
    clock.now += 1.0
    await client.get("/metrics", headers=IDENTITY)
    assert len(exposition.rendered) == 2


async def test_only_the_kept_format_and_encoding_are_served(clock):
    shared = SharedPage(Counted(), clock)
    await shared.rendering(Snapshot(number=1), TEXT)
    shared.keep(TEXT, seconds=60.0)
    assert shared.kept(TEXT)
    assert not shared.kept(Representation(Format.TEXT_0_0_4, gzip=True))
    assert not shared.kept(Representation(Format.OPENMETRICS_1_0_0, gzip=False))


async def test_a_newer_rendering_replaces_a_kept_one(clock):
    shared = SharedPage(Counted(), clock)
    await shared.rendering(Snapshot(number=1), TEXT)
    shared.keep(TEXT, seconds=60.0)
    newer = await shared.rendering(Snapshot(number=2), TEXT)
    assert shared.kept(TEXT) is newer


async def test_a_kept_page_that_exceeds_the_limit_of_bytes_is_freed(clock):
    size = (await SharedPage(Counted(), clock).rendering(Snapshot(), TEXT)).size
    shared = SharedPage(Counted(), clock, max_bytes=size)
    await shared.rendering(Snapshot(number=1), TEXT)
    shared.keep(TEXT, seconds=60.0)
    await shared.rendering(Snapshot(number=1), Representation(Format.OPENMETRICS_1_0_0, gzip=False))
    assert not shared.kept(TEXT)


async def test_a_regular_scrape_of_a_slow_page_finds_it_rendered(clock, aiohttp_client, make_state, until):
    begun, seconds = [], 1.0

    async def taken():
        begun.append(clock.now)
        await clock.sleep_until(clock.now + seconds)
        return Snapshot(number=len(begun))

    app = create_app(make_state(snapshot=SingleFlight(taken, clock.monotonic), clock=clock))
    client = await aiohttp_client(app)
    first = clock.now
    for number in range(3):
        await clock.advance(first + 15.0 * number - clock.now)
        scrape = asyncio.create_task(client.get("/metrics"))
        await until(lambda: clock.asleep)
        await clock.advance(seconds)
        assert (await scrape).status == 200
    seconds = 0.0
    await clock.advance(first + 45.0 - clock.now)
    assert (await client.get("/metrics")).status == 200
    assert begun == [first, first + 15.0, first + 30.0, first + 45.0 - 1.5]


async def test_a_failed_rendering_is_repeated_for_the_next_request():
    exposition = Counted()
    render, failing = exposition.render, [ValueError("once")]

    async def fails_once(snapshot, format_):
        if failing:
            raise failing.pop()
        async for piece in render(snapshot, format_):
            yield piece

    exposition.render = fails_once
    shared = SharedPage(exposition, FakeClock())
    with pytest.raises(ValueError, match="once"):
        await shared.rendering(Snapshot(number=1), TEXT)
    assert (await shared.rendering(Snapshot(number=1), TEXT)).size


async def test_above_the_limit_the_oldest_unread_rendering_is_aborted():
    """A slow client with a request every second takes at most the limit."""
    size = (await SharedPage(Counted(), FakeClock()).rendering(Snapshot(number=1), TEXT)).size
    shared = SharedPage(Counted(), FakeClock(), max_bytes=3 * size)
    transports = []
    with ExitStack() as reading:
        for number in range(6):
            rendering = await shared.rendering(Snapshot(number=number), TEXT)
            transports.append(Transport())
            reading.enter_context(rendering.read_by(transports[-1]))
            assert sum(one.size for one in shared.alive) <= 3 * size
    assert [each.aborted for each in transports] == [True, True, True, False, False, False]


async def test_renderings_that_were_read_do_not_count_towards_the_limit():
    size = (await SharedPage(Counted(), FakeClock()).rendering(Snapshot(number=1), TEXT)).size
    shared = SharedPage(Counted(), FakeClock(), max_bytes=3 * size)
    slow = Transport()
    with (await shared.rendering(Snapshot(), TEXT)).read_by(slow):
        for number in range(1, 20):
            with (await shared.rendering(Snapshot(number=number), TEXT)).read_by(Transport()):
                pass
    assert not slow.aborted


async def test_a_client_that_does_not_read_in_time_is_disconnected(client_of, monkeypatch):
    monkeypatch.setattr(module, "SEND_SECONDS", 0)
    client = await client_of(Counted(series=200_000))
    with pytest.raises(Exception, match=r"(?i)disconnected|payload|reset"):
        await (await client.get("/metrics")).read()


@pytest.mark.parametrize("headers", [{}, {"Accept-Encoding": "gzip"}, OPENMETRICS])
async def test_a_large_page_is_complete(client_of, headers):
    exposition = Counted(series=20_000)
    client = await client_of(exposition)
    answer = await client.get("/metrics", headers=headers)
    body = await answer.read()
    assert int(answer.headers["Content-Length"]) == len(body)
    text = gzip.decompress(body) if "Accept-Encoding" in headers else body
    assert text.count(b"\nspec_decode_gauge{") == 20_000
    assert (await client.get("/metrics")).status == 200  # on the same connection
