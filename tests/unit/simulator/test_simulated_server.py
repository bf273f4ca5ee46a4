from __future__ import annotations

import asyncio
import re
import socket

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.scrape.server_info import ServedSpeculation, served_speculation
from spec_decode_exporter.simulator.simulated_server import TICK_SECONDS, PortError, SimulatedServer

LOCAL = "127.0.0.1"
RESTARTING = [{"at": "1s", "restart": {"down": "1s"}}]


@pytest.fixture
async def make_server(clock):
    """Function that serves a simulation on a free port, with the test's clock."""
    servers = []

    async def make(simulation, port=0, host=LOCAL, **keys):
        server = SimulatedServer(simulation, clock=clock, **keys)
        await server.open(host, port)
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


async def test_a_free_port_of_all_interfaces_is_the_same_for_ipv4_and_ipv6(make_server, make_simulation):
    server = await make_server(make_simulation(), host="")
    for host in (LOCAL, "::1") if socket.has_dualstack_ipv6() else (LOCAL,):
        _, writer = await asyncio.open_connection(host, server.port)
        writer.close()


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
        await SimulatedServer(make_simulation()).open("a..b", 0)


DRAFTS = "vllm:spec_decode_num_drafts_total"


@pytest.fixture
async def make_client(make_simulation, clock):
    """Function that returns a client of a server after 30 simulated seconds."""
    clients = []

    async def make(**keys):
        simulation = make_simulation(**keys)
        simulation.advance(30)
        client = TestClient(TestServer(SimulatedServer(simulation, clock=clock).application()))
        clients.append(client)
        await client.start_server()
        return client

    yield make
    for client in clients:
        await client.close()


async def body(client, path):
    async with client.get(path) as answer:
        assert answer.status == 200
        return await answer.text()


async def test_with_the_slash_only_the_named_samples_are_returned(make_client):
    client = await make_client()
    text = await body(client, f"/metrics/?name[]={DRAFTS}&name[]=vllm:num_requests_running")
    samples = [line.partition("{")[0] for line in text.splitlines() if not line.startswith("#")]
    assert samples == [DRAFTS, "vllm:num_requests_running"]
    assert await body(client, "/metrics/") == await body(client, "/metrics")


async def test_the_rust_front_end_always_answers_in_openmetrics(make_client):
    client = await make_client(front_end="rust")
    async with client.get(f"/metrics?name[]={DRAFTS}", headers={"Accept": "text/plain"}) as answer:
        assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert (await answer.text()).endswith("# EOF\n")


async def test_version_and_health_are_those_of_vllm(make_client):
    client = await make_client()
    async with client.get("/version") as answer:
        assert await answer.json() == {"version": "0.32.0"}
    assert await body(client, "/health") == ""


async def test_with_the_slash_a_client_that_mentions_openmetrics_gets_names_without_colons(make_client):
    client = await make_client()
    accept = {"Accept": "text/plain, application/openmetrics-text;q=0.1"}
    answer = await client.get("/metrics/?name[]=vllm:spec_decode_num_drafts_total", headers=accept)
    text = await answer.text()
    assert answer.content_type == "application/openmetrics-text"
    assert "\nvllm_spec_decode_num_drafts_total{" in text
    assert text.endswith("# EOF\n")


INFO = "/server_info?config_format=json"
DRAFT = "meta-llama/Llama-3.2-1B-Instruct"


async def told(client, path):
    return served_speculation((await body(client, path)).encode())


@pytest.mark.parametrize("path", [INFO, "/server_info"])
@pytest.mark.parametrize(
    ("speculation", "served"),
    [({"method": "ngram"}, ServedSpeculation("ngram", 4, "")), ({"tokens": 0}, None)],
)
async def test_server_info_of_servers_without_a_draft_model(make_client, path, speculation, served):
    assert await told(await make_client(dev_mode=True, speculation=speculation), path) == served


@pytest.mark.parametrize("front_end", ["python", "rust"])
async def test_in_development_mode_server_info_has_the_speculative_config(make_client, front_end):
    speculation = {"tokens": 5, "tokens_per_batch_size": [[1, 8, 5], [9, 64, 0]]}
    client = await make_client(dev_mode=True, front_end=front_end, speculation=speculation)
    assert await told(client, INFO) == ServedSpeculation(
        "draft_model", 5, DRAFT, BatchSchedule((1, 9), (5, 0))
    )
    assert await told(client, "/server_info") == ServedSpeculation("draft_model", 5, DRAFT)
