"""HTTP server of a simulation: outages, errors of ports, filters and formats, and what it says about itself."""

from contextlib import asynccontextmanager
from dataclasses import replace

import aiohttp
import pytest

from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.core.user_errors import ExporterError
from spec_decode_exporter.scrape.server_info import ServedSpeculation, served_speculation
from spec_decode_exporter.simulator.simulated_server import SimulatedServer
from tests.unit.simulator.conftest import make_simulation

LOCAL = "127.0.0.1"
RESTARTING = [{"at": "1s", "restart": {"down": "1s"}}]
DRAFTS = "vllm:spec_decode_num_drafts_total"


@asynccontextmanager
async def served(clock, seconds=0, **keys):
    """Serve a simulation after some seconds, on a free port and with the test's clock."""
    simulation = make_simulation(**keys)
    simulation.advance(seconds)
    server = SimulatedServer(simulation, clock=clock)
    await server.open(LOCAL, 0)
    try:
        yield server
    finally:
        await server.close()


async def get(server, path, accept="*/*"):
    """Return an answer with its text."""
    url, headers = f"http://{LOCAL}:{server.port}{path}", {"Accept": accept}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        assert answer.status == 200
        return answer, await answer.text()


async def test_a_request_at_the_moment_of_the_kill_gets_no_page(clock):
    async with served(clock, phases=RESTARTING) as server:
        clock.now += 1.0
        with pytest.raises(aiohttp.ClientConnectionError):
            await get(server, "/metrics")


async def test_a_port_that_is_taken_and_a_host_that_no_name_can_be_are_errors(clock):
    async with served(clock) as server:
        with pytest.raises(ExporterError, match="in use"):
            await SimulatedServer(make_simulation()).open(LOCAL, server.port)
    with pytest.raises(ExporterError, match=r"cannot listen on a\.\.b:0: the host is not a valid name"):
        await SimulatedServer(make_simulation()).open("a..b", 0)


async def test_with_the_slash_only_the_named_samples_are_returned(clock):
    async with served(clock, 30) as server:
        _, text = await get(server, f"/metrics/?name[]={DRAFTS}&name[]=vllm:num_requests_running")
        assert (await get(server, "/metrics/"))[1] == (await get(server, "/metrics"))[1]
    samples = [line.partition("{")[0] for line in text.splitlines() if not line.startswith("#")]
    assert samples == [DRAFTS, "vllm:num_requests_running"]


@pytest.mark.parametrize(
    ("path", "accept", "is_open", "name"),
    [
        ("/metrics", "application/openmetrics-text", False, DRAFTS),
        # With the slash it writes OpenMetrics, whose names have no colons.
        ("/metrics/", "text/plain, application/openmetrics-text;q=0.1", True, DRAFTS.replace(":", "_")),
        ("/metrics/", "text/plain", False, DRAFTS),
    ],
)
async def test_the_format_is_that_of_the_path(clock, path, accept, is_open, name):
    async with served(clock, 30) as server:
        answer, text = await get(server, f"{path}?name[]={DRAFTS}", accept)
    assert (answer.content_type == "application/openmetrics-text") is is_open
    assert text.endswith("# EOF\n") is is_open
    assert f"\n{name}{{" in text


INFO = "/server_info?config_format=json"
SCHEDULED = {"tokens": 5, "tokens_per_batch_size": [[1, 8, 5], [9, 64, 0]]}
EAGLE = {"method": "eagle3", "draft_model": "eagle-head"}
DRAFT_MODEL = ServedSpeculation("draft_model", 5, "meta-llama/Llama-3.2-1B-Instruct")


@pytest.mark.parametrize(
    ("keys", "speculation"),
    [
        ({"speculation": {"method": "ngram"}}, ServedSpeculation("ngram", 4, "")),
        ({"speculation": EAGLE}, ServedSpeculation("eagle3", 4, "eagle-head")),
        ({"speculation": {"tokens": 0}}, None),
        ({"speculation": SCHEDULED}, replace(DRAFT_MODEL, schedule=BatchSchedule((1, 9), (5, 0)))),
    ],
)
async def test_in_development_mode_server_info_has_the_speculative_config(clock, keys, speculation):
    async with served(clock, 30, dev_mode=True, **keys) as server:
        _, text = await get(server, INFO)
    assert served_speculation(text.encode()) == speculation


async def test_the_version_is_that_of_vllm(clock):
    async with served(clock, 30) as server:
        assert (await get(server, "/version"))[1] == '{"version": "0.32.0"}'
