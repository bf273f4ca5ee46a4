"""One mix of requests, told by the installed program: its page, API, metrics, log and report say the same."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from spec_decode_exporter.simulator.scenario import load_scenario

SPEED = 10
"""Simulated seconds in one."""
ENDS = "10m"
"""Time at which the load ends, so that all requests end; then the long window no longer changes."""
LONG = "5m"


@pytest.fixture(scope="module")
def told(e2e, tmp_path_factory):
    """An exporter that received a whole mix of requests over HTTP, and their simulated server."""
    folder, port = tmp_path_factory.mktemp("requests"), e2e.free_port()
    scenario = folder / "scenario.yml"
    phases = [{"at": ENDS, "load": {"concurrency": 0}}]
    known = load_scenario("mixed").model_dump(mode="json", exclude_unset=True)
    scenario.write_text(json.dumps({**known, "phases": phases}))
    flags = ("--speed", str(SPEED), "--requests.url", f"http://127.0.0.1:{port}")
    server = e2e.Simulator(folder, scenario, *flags)
    target = {"url": server.url, "name": "vllm", "cost": {"draft_cost_ratio": 0.6, "running_requests": 16}}
    config = {"targets": [target], "requests": {"ingest": True}, "metrics": {"profile": "full"}}
    exporter = e2e.Exporter(folder, json.dumps(config), port=port)
    try:
        e2e.eventually(
            lambda: "requests_below_break_even" in exporter.log and "mixed_workload_began" in exporter.log,
            120,
        )
        e2e.eventually(
            lambda: accepted(e2e, server) == samples(exporter)["spec_decode_request_saved_tokens_total"], 60
        )
        yield exporter, server
    finally:
        exporter.stop()
        server.stop()


def samples(exporter):
    """Return the sums of every name in the metrics."""
    sums = {}
    for family in parse(exporter.metrics()):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


def counters(e2e, server):
    """Return the server's counters of speculation, by their own names."""
    status, _, page = e2e.fetch(server.url)
    assert status == 200
    return {sample.name: sample.value for family in parse(page) for sample in family.samples}


def accepted(e2e, server):
    return counters(e2e, server)["vllm:spec_decode_num_accepted_tokens_total"]


def asked(e2e, exporter):
    status, _, body = e2e.fetch(f"{exporter.url}/api/v1/requests?window={LONG}")
    assert status == 200, body
    return json.loads(body)


def test_the_sums_over_the_requests_are_the_counters_of_the_server(e2e, told):
    exporter, server = told
    status, _, page = e2e.fetch(server.url)
    assert status == 200
    for ours, theirs in (
        ("spec_decode_requests_total", "vllm:request_success_total"),
        ("spec_decode_request_saved_tokens_total", "vllm:spec_decode_num_accepted_tokens_total"),
    ):
        counted = sum(s.value for family in parse(page) for s in family.samples if s.name == theirs)
        assert samples(exporter)[ours] == counted > 1000


def test_the_api_adds_up_to_the_same(e2e, told):
    exporter, server = told
    found, counted = asked(e2e, exporter), counters(e2e, server)
    since = found["since_start"]
    assert sum(each["drafts"] for each in since) == counted["vllm:spec_decode_num_drafts_total"]
    assert (
        sum(each["accepted_tokens"] for each in since)
        == counted["vllm:spec_decode_num_accepted_tokens_total"]
    )
    assert sum(each["requests"] for each in since) == found["taken"]
    assert set(found["refused"].values()) == {0}


def test_all_of_them_find_the_mix_and_say_who_loses(e2e, told):
    exporter, _ = told
    (model,) = asked(e2e, exporter)["models"]
    assert model["mixed"]
    assert model["low_mean_acceptance_ratio"] == pytest.approx(0.37, abs=0.03)
    assert model["high_mean_acceptance_ratio"] == pytest.approx(0.83, abs=0.03)
    assert (
        f'spec_decode_mixed_workload{{model_name="{model["model_name"]}",window="{LONG}"}} 1.0'
        in exporter.metrics()
    )
    lost = [line for line in exporter.log.splitlines() if "event=requests_below_break_even " in line]
    assert len(lost) == 1
    assert "request_type=creative" in lost[0]
    page = e2e.fetch(exporter.url)[2]
    assert "Mixed workload: " in page
    assert model["advice"][0] in page


def test_what_is_sent_where_nothing_is_taken_is_answered_with_what_to_do(e2e, start):
    exporter = start(e2e.Exporter, "targets: [{url: 'http://127.0.0.1:9'}]", name="closed")
    exporter.wait_for(f"{exporter.url}/-/healthy")
    status, _, body = e2e.fetch(f"{exporter.url}/api/v1/requests", method="POST")
    assert status == 404
    assert "requests.ingest: true" in body
    assert "requests-title" not in e2e.fetch(exporter.url)[2]
