"""Snapshots of a busy engine after some minutes of polls."""

import gzip
import json
from math import inf

import pytest

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.comparison_settings import CostSettings, LoadCost, ReferenceSettings
from spec_decode_exporter.costs.baseline import Baseline
from spec_decode_exporter.costs.steps import StepReader
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets, EngineName, SampleReader
from tests.fakes.windows import increment
from tests.paths import DATA

WALL = 1_790_000_000.0


def trace(name):
    """Return the polls of a recorded trace that were answered."""
    with gzip.open(DATA / "traces" / f"{name}.jsonl.gz", "rt") as lines:
        return [row for row in map(json.loads, lines) if "page" in row]


def recorded_engine():
    """Return the snapshot of an engine after the first 25 s of the recording of a restart."""
    wall, engine, reader = 1_795_225_677.0, EngineMonitor((10.0, 300.0)), SampleReader()
    for row in (row for row in trace("restart_k3_k5") if row["t"] < 25):
        reading = reader.read(row["page"].encode(), with_latencies=row["histograms"])
        poll(engine, reading.samples[EngineName("tiny-llama", "0")], row["t"], wall, 10.0)
    return engine.snapshot


def poll(watch, sample, moment, wall=WALL, histograms=1.0):
    """Observe and evaluate a poll ``moment`` seconds after ``wall``; return the events."""
    return [*watch.observe(sample, moment, wall + moment, 1.0, histograms), *watch.evaluate()]


@pytest.fixture(scope="session")
def busy_sample(make_sample):
    def busy_sample(n, tokens=8):
        """Return the sample of a second with 20 running requests and a draft of ``tokens`` a step each."""
        return make_sample(
            400 * n,
            400 * tokens * n,
            sum((20 - place) * 10 for place in range(tokens)) * n,
            positions=[(20 - place) * 10 * n for place in range(tokens)],
            generation_tokens=1800 * n,
            first_tokens=5 * n,
            decode_steps=420 * n,
            decode_nanoseconds=20 * 10**9 * n,
            first_token_nanoseconds=10**9 * n,
            preemptions=n // 10,
            prefix_cache_queries=1000 * n,
            prefix_cache_hits=250 * n,
            running_requests=20.0,
            waiting_requests=1.0,
            kv_cache_usage=0.5,
            created=WALL - 100,
            latencies={latency: Buckets((0.1, 1.0, inf), (n, 2 * n, 2 * n)) for latency in Latency},
        )

    return busy_sample


@pytest.fixture(scope="session")
def watched():
    def watched(samples, windows=(30.0, 300.0), **options):
        """Return a monitor that evaluated the last of the samples, one a second, and its moment."""
        watch = EngineMonitor(windows, **options)
        moment = 0.0
        for moment, sample in enumerate(samples, 1):
            watch.observe(sample, float(moment), WALL + moment, 1.0, 1.0)
        watch.evaluate()
        return watch, float(moment)

    return watched


@pytest.fixture(scope="session")
def findings_of(watched):
    def findings_of(samples, windows=(30.0, 300.0), *, later=0.0, **options):
        watch, moment = watched(samples, windows, **options)
        watch.gone(moment + later, is_bad=False)
        return watch.snapshot

    return findings_of


@pytest.fixture(scope="session")
def busy(findings_of, busy_sample):
    """Snapshot of an engine with K = 8 and two full windows."""
    loads = [
        LoadCost(running_requests=10, draft_cost_ratio=0.1),
        LoadCost(running_requests=80, draft_cost_ratio=0.8),
    ]
    assumptions = Assumptions(
        Speculation("eagle3", "configured", draft_bytes=1e9),
        CostSettings(loads=loads),
        reference=ReferenceSettings(acceptance_ratio=0.55, tokens=8),
    )
    # An hour without speculation, an hour ago, of which only steps are known.
    baseline, reader = Baseline(), StepReader()
    for wall in range(round(WALL) - 7200, round(WALL) - 3600, 60):
        minute = increment(
            wall, wall + 60.0, load=20.0, decode_steps=60_000, decode_nanoseconds=60_000 * 18_000_000
        )
        period = baseline.plain(minute, 20.0, wall + 60.0)
        period.steps.add(reader.read(minute, wall + 60.0))
    samples = [busy_sample(n) for n in range(310)]
    return findings_of(samples, assumptions=assumptions, baseline=baseline)
