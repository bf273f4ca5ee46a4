from __future__ import annotations

import pytest
from aiohttp.test_utils import TestClient, TestServer

from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.scrape.server_info import ServedSpeculation, served_speculation
from spec_decode_exporter.simulator.front_end import FrontEnd
from spec_decode_exporter.simulator.unix_time import UnixTime

DRAFTS = "vllm:spec_decode_num_drafts_total"


@pytest.fixture
async def make_client(make_simulation):
    """Function that returns a client of a server after 30 simulated seconds."""
    clients = []

    async def make(**keys):
        simulation = make_simulation(**keys)
        simulation.advance(30)
        app = FrontEnd(simulation, UnixTime(), lambda: None).application()
        client = TestClient(TestServer(app))
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
