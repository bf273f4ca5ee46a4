from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.reports.observation import observed_config
from spec_decode_exporter.reports.reference.measure_servers import CHECKED_AFTER, NotMeasuredError
from tests.conftest import settle
from tests.fixtures.simulated import Server
from tests.reports.conftest import changed, take, taken


async def failed(clock, seconds, *urls):
    """Measure, advance the clock by ``seconds``, and return the error."""
    work = asyncio.ensure_future(take(observed_config([{"url": url} for url in urls], 300), 300, clock))
    await clock.advance(seconds)
    await settle(100)
    assert work.done()
    with pytest.raises(NotMeasuredError) as caught:
        await work
    return str(caught.value)


async def test_an_unreachable_server_ends_the_measurement_early(network, clock):
    network.servers["a:1"] = Server(clock, "steady", running=60)
    message = await failed(clock, CHECKED_AFTER + 1, "http://a:1", "http://b:1")
    assert message.startswith("b:1 does not answer: ")
    assert "Connection refused" in message
    assert "a:1 does not" not in message


async def test_a_server_that_goes_away_leaves_no_reference(network, clock):
    network.servers["a:1"] = server = Server(clock, "steady", running=60)
    work = asyncio.ensure_future(take(observed_config([{"url": "http://a:1"}], 60), 60, clock))
    await clock.advance(40)
    server.away = True
    await clock.advance(20)
    await settle(100)
    with pytest.raises(NotMeasuredError, match="a:1 does not answer"):
        await work


async def test_a_page_without_engines_is_an_error(network, clock, monkeypatch):
    network.servers["a:1"] = server = Server(clock, "steady", running=60)
    monkeypatch.setattr(server, "answer", lambda _: b"up 1\n")
    message = await failed(clock, CHECKED_AFTER + 1, "http://a:1")
    assert message == "a:1 shows no engine: is a:1/metrics the metrics page of a server?"


async def test_an_idle_server_has_no_bounds(network, clock):
    document = await taken(network, clock, 60, a=("idle", 1))
    assert not any(model.has_bounds for model in document.models)


async def test_a_server_without_speculation_is_measured_too(network, clock):
    document = await taken(network, clock, 60, a=(changed(speculation={"tokens": 0}), 1))
    (model,) = document.models
    assert (model.acceptance_ratio, model.has_bounds, model.measurement.tokens) == (None, False, 0)
    assert model.measurement.quantities["time_per_output_token_seconds"].lower is not None
