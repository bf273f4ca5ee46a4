"""HTTP server of a simulation: outages, errors of ports, filters and formats, and what it says about itself."""

from dataclasses import replace

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.scrape.server_info import ServedSpeculation, served_speculation
from spec_decode_exporter.simulator.simulated_server import SimulatedServer
from tests.unit.simulator.conftest import make_simulation

LOCAL = "127.0.0.1"
RESTARTING = [{"at": "1s", "restart": {"down": "1s"}}]
DRAFTS = "vllm:spec_decode_num_drafts_total"


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


async def page(server):
    address = f"http://{LOCAL}:{server.port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(address) as answer:
        return await answer.text()


async def test_a_request_at_the_moment_of_the_kill_gets_no_page(make_server, clock):
    server = await make_server(make_simulation(phases=RESTARTING))
    clock.now += 1.0
    with pytest.raises(aiohttp.ClientConnectionError):
        await page(server)


async def test_a_port_that_is_taken_and_a_host_that_no_name_can_be_are_errors(make_server):
    server = await make_server(make_simulation())
    with pytest.raises(ExporterError, match="in use"):
        await make_server(make_simulation(), port=server.port)
    with pytest.raises(ExporterError, match=r"cannot listen on a\.\.b:0: the host is not a valid name"):
        await SimulatedServer(make_simulation()).open("a..b", 0)


@pytest.fixture
async def get(clock):
    """Function that returns an answer, with its text, of a server after 30 simulated seconds."""
    clients = []

    async def get(path, accept="*/*", **keys):
        simulation = make_simulation(**keys)
        simulation.advance(30)
        client = TestClient(TestServer(SimulatedServer(simulation, clock=clock).application()))
        clients.append(client)
        await client.start_server()
        async with client.get(path, headers={"Accept": accept}) as answer:
            assert answer.status == 200
            return answer, await answer.text()

    yield get
    for client in clients:
        await client.close()


async def test_with_the_slash_only_the_named_samples_are_returned(get):
    _, text = await get(f"/metrics/?name[]={DRAFTS}&name[]=vllm:num_requests_running")
    samples = [line.partition("{")[0] for line in text.splitlines() if not line.startswith("#")]
    assert samples == [DRAFTS, "vllm:num_requests_running"]
    assert (await get("/metrics/"))[1] == (await get("/metrics"))[1]


@pytest.mark.parametrize(
    ("path", "accept", "is_open", "name"),
    [
        ("/metrics", "application/openmetrics-text", False, DRAFTS),
        # With the slash it writes OpenMetrics, whose names have no colons.
        ("/metrics/", "text/plain, application/openmetrics-text;q=0.1", True, DRAFTS.replace(":", "_")),
        ("/metrics/", "text/plain", False, DRAFTS),
    ],
)
async def test_the_format_is_that_of_the_path(get, path, accept, is_open, name):
    answer, text = await get(f"{path}?name[]={DRAFTS}", accept)
    assert (answer.content_type == "application/openmetrics-text") is is_open
    assert text.endswith("# EOF\n") is is_open
    assert f"\n{name}{{" in text


INFO = "/server_info?config_format=json"
SCHEDULED = {"tokens": 5, "tokens_per_batch_size": [[1, 8, 5], [9, 64, 0]]}
EAGLE = {"method": "eagle3", "draft_model": "eagle-head"}
DRAFT_MODEL = ServedSpeculation("draft_model", 5, "meta-llama/Llama-3.2-1B-Instruct")


@pytest.mark.parametrize(
    ("keys", "served"),
    [
        ({"speculation": {"method": "ngram"}}, ServedSpeculation("ngram", 4, "")),
        ({"speculation": EAGLE}, ServedSpeculation("eagle3", 4, "eagle-head")),
        ({"speculation": {"tokens": 0}}, None),
        ({"speculation": SCHEDULED}, replace(DRAFT_MODEL, schedule=BatchSchedule((1, 9), (5, 0)))),
    ],
)
async def test_in_development_mode_server_info_has_the_speculative_config(get, keys, served):
    _, text = await get(INFO, dev_mode=True, **keys)
    assert served_speculation(text.encode()) == served


async def test_the_version_is_that_of_vllm(get):
    assert (await get("/version"))[1] == '{"version": "0.32.0"}'
