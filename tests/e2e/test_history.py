"""The installed program reports the history of a real Prometheus, which has the counters of a simulated server."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request

import pytest

from spec_decode_exporter.simulator.scenario import Scenario
from tests.fakes.scenarios import speedup
from tests.fakes.simulated_history import StoredHistory

MINUTE = 60
SERVER = {"speculation": {"tokens": 0, "method": "draft_model"}, "load": {"concurrency": 8}}
PHASES = [
    {"at": "30m", "restart": {"down": "20s", "tokens": 4}},
    {"at": "60m", "acceptance": {"mean": 0.4}},
    {"at": "85m", "acceptance": {"mean": 0.75}},
    {"at": "105m", "restart": {"down": "20s", "tokens": 2}},
]
END = 120 * MINUTE
SLOT = 15 * MINUTE
INTERVALS = {"fast": 15, "slow": 60}


def truth(tokens, mean):
    """Return the speed-up that the simulator has with these draft tokens and this acceptance."""
    speculation = {"tokens": tokens, "method": "draft_model"}
    scenario = {"speculation": speculation, "load": {"concurrency": 8}, "acceptance": {"mean": mean}}
    return speedup(Scenario.model_validate(scenario), 300, 1800)


@pytest.fixture(scope="module")
def filled(start, e2e, prometheus_tools):
    """Start a Prometheus with two hours of two servers, scraped every 15 s and every minute."""
    stored = StoredHistory(start=(time.time() - END - 600) // SLOT * SLOT)
    scenario = Scenario.model_validate({**SERVER, "phases": PHASES})
    for job, interval in INTERVALS.items():
        stored.simulate(scenario, END, interval, job=job, instance=f"{job}:8000")

    class Victoria(e2e.Running):
        """A VictoriaMetrics with the same samples, whose times it keeps in milliseconds."""

        def __init__(self, folder):
            port = e2e.free_port()
            self.url = f"http://127.0.0.1:{port}"
            words = ["victoria-metrics", f"-storageDataPath={folder / 'victoria'}", "-retentionPeriod=1y"]
            super().__init__("victoria", [*words, f"-httpListenAddr=127.0.0.1:{port}"], folder)

        def fill(self):
            lines = (line.rsplit(" ", 1) for line in stored.open_metrics().splitlines()[:-1])
            text = "".join(f"{sample} {round(1000 * float(time))}\n" for sample, time in lines)
            imported = urllib.request.Request(f"{self.url}/api/v1/import/prometheus", text.encode())
            urllib.request.urlopen(imported).close()
            urllib.request.urlopen(f"{self.url}/internal/force_flush").close()

    def filled(name, *flags):
        return start(e2e.PrometheusWithHistory, stored, *flags, name=name)

    def victoria():
        process = start(Victoria)
        process.wait_for(f"{process.url}/health")
        process.fill()
        return process

    filled.victoria = victoria
    return filled


@pytest.fixture(scope="module")
def prometheus(filled):
    return filled("whole")


@pytest.fixture(scope="module")
def report(prometheus, e2e):
    """Return the JSON report of one job, read once."""
    known = {}

    def report(job):
        if job not in known:
            ended = observe(e2e, prometheus, "--match", f'job="{job}"', "--format", "json")
            assert ended.returncode == 0, ended.stderr
            known[job] = json.loads(ended.stdout)
        return known[job]["engines"][0]

    return report


def observe(e2e, prometheus, *flags):
    words = [e2e.PROGRAM, "observe", "--prometheus.url", prometheus.url, "--since", "4h", *flags]
    return subprocess.run(words, check=False, capture_output=True, text=True, timeout=120)


def slots_between(prometheus, engine, begin, end):
    """Return the slots that lie within some minutes of the simulation."""
    edges = prometheus.begin + begin * MINUTE, prometheus.begin + end * MINUTE
    return [slot for slot in engine["slots"] if edges[0] <= slot["begin"] and slot["end"] <= edges[1]]


@pytest.mark.parametrize("job", INTERVALS)
@pytest.mark.parametrize(
    ("begin", "end", "tokens", "mean"), [(31, 61, 4, 0.75), (59, 76, 4, 0.4), (104, 121, 2, 0.75)]
)
def test_the_bounds_contain_the_truth(prometheus, report, job, begin, end, tokens, mean):
    found = [slot for slot in slots_between(prometheus, report(job), begin, end) if slot["speedup"]]
    assert found
    exact = truth(tokens, mean)
    longest = max(found, key=lambda slot: slot["seconds"])
    assert longest["speedup"]["lower"] <= exact <= longest["speedup"]["upper"]
    # The guess of a regression over polls of up to a minute has an error of some percent, within its bounds.
    assert longest["speedup"]["value"] == pytest.approx(exact, rel=0.08)


@pytest.mark.parametrize("job", INTERVALS)
def test_the_time_before_is_the_baseline(report, job):
    engine = report(job)
    assert engine["baselines"][0]["seconds"] == pytest.approx(30 * MINUTE, abs=2 * MINUTE)
    assert {slot["cost_source"] for slot in engine["slots"] if slot["drafts"]} == {"baseline"}


@pytest.mark.parametrize("job", INTERVALS)
def test_changes_and_the_drop_are_where_they_were(prometheus, report, job):
    engine, interval = report(job), INTERVALS[job]
    changes = {each["name"]: (each["time"] - prometheus.begin) / MINUTE for each in engine["changes"]}
    assert changes == {
        "speculation enabled with 4 draft tokens": pytest.approx(30, abs=2),
        "2 draft tokens instead of 4": pytest.approx(105, abs=2),
    }
    (drop,) = engine["drops"]
    assert (drop["begin"] - prometheus.begin) / MINUTE == pytest.approx(60, abs=2 * interval / MINUTE + 0.5)
    assert (drop["end"] - prometheus.begin) / MINUTE == pytest.approx(85, abs=2 * interval / MINUTE + 1)
    assert drop["depth"] == pytest.approx(0.4, abs=0.08)


def test_both_intervals_say_the_same(report):
    fast, slow = (report(job)["summary"]["speedup"] for job in INTERVALS)
    assert fast["value"] == pytest.approx(slow["value"], rel=0.02)


def test_every_format_is_written(prometheus, e2e):
    for form, text in (("text", "**PAID**"), ("html", "<svg")):
        ended = observe(e2e, prometheus, "--format", form)
        assert ended.returncode == 0, ended.stderr
        assert text in ended.stdout


def test_matchers_that_exclude_everything_are_an_error(prometheus, e2e):
    ended = observe(e2e, prometheus, "--match", 'job="none"')
    assert ended.returncode == 1
    assert "check --match" in ended.stderr


def test_a_limit_of_the_server_leads_to_smaller_pages(filled, report, e2e):
    limited = filled("limited", "--query.max-samples=3000")
    ended = observe(e2e, limited, "--match", 'job="fast"', "--format", "json")
    assert ended.returncode == 0, ended.stderr
    whole = report("fast")
    assert json.loads(ended.stdout)["engines"][0]["slots"] == whole["slots"]


def test_victoriametrics_has_the_same_history(filled, report, e2e):
    if shutil.which("victoria-metrics") is None:
        pytest.skip("VictoriaMetrics is not installed: apt-get install victoria-metrics")
    ended = observe(e2e, filled.victoria(), "--match", 'job="slow"', "--format", "json")
    assert ended.returncode == 0, ended.stderr
    found, whole = json.loads(ended.stdout)["engines"][0], report("slow")
    assert found["summary"]["speedup"] == pytest.approx(whole["summary"]["speedup"])
    assert len(found["slots"]) == len(whole["slots"])
