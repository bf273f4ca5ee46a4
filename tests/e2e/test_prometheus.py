"""Users' queries to a real Prometheus, with the installed program and a simulated vLLM."""

from __future__ import annotations

import json
import shutil
import subprocess
from types import SimpleNamespace

import pytest

STEADY = """
speculation: {tokens: 4}
load: {concurrency: 16}
"""
RESTART = """
speculation: {tokens: 4}
load: {concurrency: 16}
phases:
  - at: 15s
    restart: {down: 3s, tokens: 6}
"""
ACCEPTANCE = 'spec_decode_draft_acceptance_ratio{target="steady",window="30s"}'
TRUTH = (
    'sum(rate(vllm:spec_decode_num_accepted_tokens_total{job="steady"}[30s]))'
    ' / sum(rate(vllm:spec_decode_num_draft_tokens_total{job="steady"}[30s]))'
)


@pytest.fixture(scope="module")
def stack(start, e2e, prometheus_tools, tmp_path_factory):
    """Two simulated servers, the exporter watching them, and Prometheus scraping all three for 40 s."""
    scenarios = tmp_path_factory.mktemp("scenarios")
    servers = {}
    for name, text in (("steady", STEADY), ("restart", RESTART)):
        (scenarios / f"{name}.yml").write_text(text)
        servers[name] = start(e2e.Simulator, scenarios / f"{name}.yml", name=name)
        servers[name].wait_for(servers[name].url)
    targets = [{"name": name, "url": server.url} for name, server in servers.items()]
    exporter = start(e2e.Exporter, json.dumps({"targets": targets}))
    exporter.wait_for(f"{exporter.url}/-/ready")
    addresses = {"exporter": exporter, **servers}
    prometheus = start(
        e2e.Prometheus, {job: [f"127.0.0.1:{process.port}"] for job, process in addresses.items()}
    )
    prometheus.wait_for(f"{prometheus.url}/-/ready")
    e2e.eventually(lambda: prometheus.value('count_over_time(up{job="exporter"}[5m])>=40'))
    return SimpleNamespace(exporter=exporter, prometheus=prometheus, **servers)


def test_both_targets_are_up(stack):
    found = stack.prometheus.query("spec_decode_exporter_target_up")
    assert {labels["target"]: value for labels, value in found} == {"steady": 1, "restart": 1}


def test_no_scrape_of_the_exporter_failed(stack):
    assert stack.prometheus.value('min_over_time(up{job="exporter"}[5m])') == 1


def test_the_acceptance_of_30_s_is_that_of_the_server(stack):
    truth = stack.prometheus.value(TRUTH)
    assert 0.3 < truth < 0.95
    assert stack.prometheus.value(ACCEPTANCE) == pytest.approx(truth, abs=0.02)


def test_the_rate_of_our_counters_is_that_of_the_server(stack):
    for name in ("accepted_tokens", "draft_tokens", "drafts"):
        ours = stack.prometheus.value(f'rate(spec_decode_{name}_total{{target="steady"}}[30s])')
        theirs = stack.prometheus.value(f'rate(vllm:spec_decode_num_{name}_total{{job="steady"}}[30s])')
        assert ours == pytest.approx(theirs, rel=0.05)


def test_each_position_has_its_acceptance(stack):
    ratios = stack.prometheus.query('spec_decode_position_acceptance_ratio{target="steady",window="30s"}')
    by_position = {int(labels["position"]): ratio for labels, ratio in ratios}
    assert sorted(by_position) == [0, 1, 2, 3]
    in_order = [by_position[position] for position in sorted(by_position)]
    assert in_order == sorted(in_order, reverse=True)
    assert all(0 < ratio < 1 for ratio in in_order)


def test_a_restart_is_a_reset_of_the_server_but_not_of_our_counters(stack):
    prometheus = stack.prometheus
    assert prometheus.value('resets(vllm:spec_decode_num_accepted_tokens_total{job="restart"}[5m])') == 1
    assert prometheus.value('resets(spec_decode_accepted_tokens_total{target="restart"}[5m])') == 0
    assert prometheus.value('sum(spec_decode_engine_resets_total{target="restart"})') == 1
    assert prometheus.value('sum(spec_decode_engine_resets_total{target="steady"})') == 0


def test_promtool_finds_nothing_to_criticise(stack):
    checked = subprocess.run(
        [shutil.which("promtool"), "check", "metrics"],
        input=stack.exporter.metrics(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_the_log_holds_no_traceback(stack):
    assert "Traceback" not in stack.exporter.log
