"""The installed program takes the baseline of a server that drafts from the history of a real Prometheus."""

from __future__ import annotations

import json
import subprocess
import time

import pytest
import yaml

from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.simulator.scenario import Scenario
from tests.fakes.scenarios import speedup
from tests.fakes.simulated_history import StoredHistory

SERVER = {"load": {"concurrency": 8}, "speculation": {"tokens": 4, "method": "draft_model"}}
PLAIN = {**SERVER, "speculation": {"tokens": 0, "method": "draft_model"}}
HOUR = 3600
DRAFTING = 1200
"""Seconds from the end of the history's period without speculation until now."""


@pytest.fixture(scope="module")
def server(start, e2e, tmp_path_factory):
    """Start a server that drafts."""
    scenario = tmp_path_factory.mktemp("scenario") / "server.yml"
    scenario.write_text(yaml.safe_dump(SERVER))
    server = start(e2e.Simulator, scenario)
    server.wait_for(server.url)
    return server


@pytest.fixture(scope="module")
def history(start, e2e, server, prometheus_tools):
    """Start a Prometheus with an hour of the server without speculation."""
    stored = StoredHistory(start=time.time() - HOUR - DRAFTING)
    instance = f"127.0.0.1:{server.port}"
    stored.simulate(Scenario.model_validate(PLAIN), HOUR, 15, job="vllm", instance=instance)
    stored.simulate(Scenario.model_validate(SERVER), HOUR, 15, job="other", instance="other:8000")
    return start(e2e.PrometheusWithHistory, stored)


@pytest.fixture(scope="module")
def exporter(start, e2e, server, history):
    """Start the exporter."""
    config = {
        "targets": [{"url": server.url, "name": "server", "speculative": {"method": "draft_model"}}],
        "baseline": {"prometheus": {"url": f"{history.url}/graph"}},
    }
    exporter = start(e2e.Exporter, json.dumps(config))
    exporter.wait_for(exporter.url)
    return exporter


@pytest.fixture(scope="module")
def engine(exporter, e2e):
    """Return the engine once its cost is measured."""

    def engine():
        found = json.loads(e2e.fetch(f"{exporter.url}/api/v1/snapshot")[2])["engines"]
        is_measured = found and found[0]["cost"] and found[0]["cost"]["source"] == "baseline"
        return found[0] if is_measured and found[0]["evaluated"]["estimated_speedup_ratio"] else None

    return e2e.eventually(engine, within=150)


def test_the_baseline_contains_the_true_cost(engine):
    exact = Scenario.model_validate(SERVER).draft_cost_ratio(8)
    cost, tokens = engine["cost"], SERVER["speculation"]["tokens"]
    fixed = cost["fixed_cost_ratio"]
    low, high = (fixed + tokens * cost[f"draft_cost_ratio_{end}"] for end in ("lower", "upper"))
    assert low <= tokens * exact <= high
    assert fixed + tokens * cost["draft_cost_ratio"] == pytest.approx(tokens * exact, rel=0.3)


def test_the_period_is_named(exporter):
    (line,) = [line for line in exporter.log.splitlines() if "baseline_read" in line]
    assert "min without speculation on " in line
    assert "baseline_not_read" not in exporter.log


def test_the_speed_up_contains_the_truth(engine):
    exact = speedup(Scenario.model_validate(SERVER), 300, 1800)
    bounds = engine["evaluated"]["estimated_speedup_ratio"]
    assert bounds["lower"] <= exact <= bounds["upper"]


def test_requests_are_compared_with_the_same_period(engine):
    assert engine["baseline"]["time_to_first_token_seconds"] > 0
    assert engine["evaluated"]["end_to_end_speedup_ratio"]["basis"] == "baseline"


def test_an_observation_of_a_minute_has_the_verdict(e2e, server, history):
    flags = ("--baseline.prometheus.url", history.url, "--for", "60s", "--format", "json")
    seen = subprocess.run(
        [e2e.PROGRAM, "observe", server.url, *flags], capture_output=True, text=True, check=False
    )
    assert seen.returncode == ExitStatus.GOOD, seen.stdout + seen.stderr
    report = json.loads(seen.stdout)
    (engine,) = report["engines"]
    assert engine["cost"]["source"] == "baseline"
    assert "baseline_read" in {event["type"] for event in report["events"]}
