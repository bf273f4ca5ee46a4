"""Histories of a real Prometheus and a real VictoriaMetrics: the report, and the baseline of a server that drafts.

Their samples are the counters of simulated servers.
"""

import json
import shutil
import subprocess
import time
import urllib.request

import pytest
import yaml

from spec_decode_exporter.simulator.scenario import Scenario
from tests.fakes.scenarios import speedup
from tests.fakes.simulated_history import StoredHistory

MINUTE = 60
SLOT = 15 * MINUTE
END = 120 * MINUTE


def scenario(tokens, mean=0.75, **more):
    speculation = {"tokens": tokens, "method": "draft_model"}
    return {"speculation": speculation, "load": {"concurrency": 8}, "acceptance": {"mean": mean}, **more}


CHANGING = scenario(
    0,
    phases=[
        {"at": "30m", "restart": {"down": "20s", "tokens": 4}},
        {"at": "60m", "acceptance": {"mean": 0.4}},
        {"at": "85m", "acceptance": {"mean": 0.75}},
        {"at": "105m", "restart": {"down": "20s", "tokens": 2}},
    ],
)
DRAFTING = scenario(4)


@pytest.fixture(scope="module")
def drafting(start, e2e, tmp_path_factory):
    """A server that drafts."""
    path = tmp_path_factory.mktemp("scenario") / "server.yml"
    path.write_text(yaml.safe_dump(DRAFTING))
    server = start(e2e.Simulator, path)
    server.wait_for(server.url)
    return server


@pytest.fixture(scope="module")
def stored(drafting):
    """Two hours of a server that changes, and an hour of the server that drafts, before it did."""
    stored = StoredHistory(start=(time.time() - END - 600) // SLOT * SLOT)
    stored.simulate(Scenario.model_validate(CHANGING), END, 15, job="changing", instance="changing:8000")
    plain = Scenario.model_validate(scenario(0))
    stored.simulate(plain, END // 2, 15, job="vllm", instance=f"127.0.0.1:{drafting.port}")
    return stored


@pytest.fixture(scope="module")
def prometheus(start, e2e, stored, prometheus_tools):
    return start(e2e.PrometheusWithHistory, stored, name="whole")


def reported(e2e, server):
    """Return the engine of the server that changes, in the report of its history as JSON."""
    words = ["observe", "--prometheus.url", server.url, "--since", "4h", "--match", 'job="changing"']
    command = [e2e.PROGRAM, *words, "--format", "json"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=e2e.CEILING)
    assert ended.returncode == 0, ended.stderr
    (engine,) = json.loads(ended.stdout)["history"]["engines"]
    return engine


@pytest.fixture(scope="module")
def engine(prometheus, e2e):
    return reported(e2e, prometheus)


@pytest.mark.parametrize(
    ("begin", "end", "told"),
    [(59, 76, scenario(4, 0.4)), (104, 121, scenario(2))],
    ids=["dropped", "fewer tokens"],
)
def test_the_bounds_contain_the_truth(stored, engine, begin, end, told):
    edges = stored.start + begin * MINUTE, stored.start + end * MINUTE
    slots = [slot for slot in engine["slots"] if edges[0] <= slot["begin"] and slot["end"] <= edges[1]]
    longest = max((slot for slot in slots if slot["speedup"]), key=lambda slot: slot["seconds"])
    exact = speedup(Scenario.model_validate(told), 300, 1800)
    assert longest["speedup"]["lower"] <= exact <= longest["speedup"]["upper"]
    # The guess of a regression over polls has an error of some percent, within its bounds.
    assert longest["speedup"]["value"] == pytest.approx(exact, rel=0.08)


def test_victoriametrics_has_the_same_history(start, stored, engine, e2e, tmp_path):
    """It keeps times in milliseconds."""
    if shutil.which("victoria-metrics") is None:
        pytest.skip("VictoriaMetrics is not installed: apt-get install victoria-metrics")

    address = f"127.0.0.1:{e2e.free_port()}"
    words = ["victoria-metrics", f"-storageDataPath={tmp_path}", "-retentionPeriod=1y"]
    victoria = start(lambda folder: e2e.Running("victoria", [*words, f"-httpListenAddr={address}"], folder))
    victoria.url = f"http://{address}"
    victoria.wait_for(f"{victoria.url}/health")
    lines = (line.rsplit(" ", 1) for line in stored.open_metrics().splitlines()[:-1])
    text = "".join(f"{sample} {round(1000 * float(moment))}\n" for sample, moment in lines)
    imported = urllib.request.Request(f"{victoria.url}/api/v1/import/prometheus", text.encode())
    urllib.request.urlopen(imported).close()
    urllib.request.urlopen(f"{victoria.url}/internal/force_flush").close()
    found = reported(e2e, victoria)
    assert found["summary"]["speedup"] == pytest.approx(engine["summary"]["speedup"])
    assert len(found["slots"]) == len(engine["slots"])


def test_an_exporter_takes_the_baseline_of_a_server_that_drafts_from_its_history(
    start, e2e, drafting, prometheus
):
    target = {"url": drafting.url, "name": "server", "speculative": {"method": "draft_model"}}
    config = {"targets": [target], "baseline": {"prometheus": {"url": f"{prometheus.url}/graph"}}}
    exporter = start(e2e.Exporter, json.dumps(config))
    exporter.wait_for(exporter.url)

    def measured():
        found = json.loads(e2e.fetch(f"{exporter.url}/api/v1/snapshot")[2])["engines"]
        known = found and found[0]["cost"] and found[0]["cost"]["source"] == "baseline"
        return known and found[0]["evaluated"]["estimated_speedup_ratio"] and found[0]

    engine = e2e.eventually(measured)
    exact, cost = Scenario.model_validate(DRAFTING).draft_cost_ratio(8), engine["cost"]
    low, high = (cost["fixed_cost_ratio"] + 4 * cost[f"draft_cost_ratio_{end}"] for end in ("lower", "upper"))
    assert low <= 4 * exact <= high
    bounds = engine["evaluated"]["estimated_speedup_ratio"]
    speedup_ratio = speedup(Scenario.model_validate(DRAFTING), 300, 1800)
    assert bounds["lower"] <= speedup_ratio <= bounds["upper"]
    assert engine["evaluated"]["end_to_end_speedup_ratio"]["basis"] == "baseline"
    (line,) = [line for line in exporter.log.splitlines() if "baseline_read" in line]
    assert "min without speculation on " in line
