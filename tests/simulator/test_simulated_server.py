from __future__ import annotations

import re

import aiohttp
import pytest

from spec_decode_exporter.simulator.simulated_server import TICK_SECONDS, PortError, serve

LOCAL = "127.0.0.1"
RESTARTING = [{"at": "1s", "restart": {"down": "1s"}}]


@pytest.fixture
async def make_server(clock):
    """Function that serves a simulation on a free port, with the test's clock."""
    servers = []

    async def make(simulation, port=0, **keys):
        server = await serve(simulation, LOCAL, port, clock=clock, **keys)
        servers.append(server)
        return server

    yield make
    for server in servers:
        await server.close()


@pytest.fixture
async def session():
    async with aiohttp.ClientSession() as made:
        yield made


async def page(session, server):
    async with session.get(f"http://{LOCAL}:{server.port}/metrics") as answer:
        return await answer.text()


def value(text, name):
    return float(re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)[1])


async def test_a_request_at_the_moment_of_the_kill_gets_no_page(make_server, make_simulation, clock, session):
    server = await make_server(make_simulation(phases=RESTARTING))
    clock.now += 1.0
    with pytest.raises(aiohttp.ClientConnectionError):
        await page(session, server)


async def test_a_port_that_was_taken_during_an_outage_is_tried_again(
    make_server, make_simulation, clock, session, until
):
    server = await make_server(make_simulation(phases=RESTARTING))
    await clock.advance(1.0 + TICK_SECONDS)
    await until(lambda: not server.listening)
    simulation = make_simulation()
    other = await make_server(simulation, port=server.port)
    await clock.advance(1.0)
    assert not server.listening
    await other.close()
    clock.now += TICK_SECONDS
    await clock.advance(0)
    await until(lambda: server.listening)
    assert "vllm:generation_tokens_total" in await page(session, server)


async def test_creation_times_are_the_clocks_whatever_the_speed(
    make_server, make_simulation, clock, session, until
):
    phases = [{"at": "30s", "restart": {"down": "30s"}}]
    server = await make_server(make_simulation(phases=phases), speed=60.0)
    started = clock.wall()
    await clock.advance(0.75)
    await until(lambda: not server.listening)
    await clock.advance(0.75)
    await until(lambda: server.listening)
    text = await page(session, server)
    assert value(text, "process_start_time_seconds") == pytest.approx(started + 0.5, abs=0.02)
    assert value(text, "vllm:generation_tokens_created") == pytest.approx(started + 1.0, abs=0.02)


async def test_a_port_that_is_taken_at_the_start_is_an_error(make_server, make_simulation):
    server = await make_server(make_simulation())
    with pytest.raises(PortError, match="in use"):
        await make_server(make_simulation(), port=server.port)


async def test_a_host_that_no_name_can_be_is_an_error(make_simulation):
    with pytest.raises(PortError, match=r"cannot listen on a\.\.b:0: the host is not a valid name"):
        await serve(make_simulation(), "a..b", 0)
