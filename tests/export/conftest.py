"""Findings to export: a busy engine that was polled for a while."""

from __future__ import annotations

from math import inf

import pytest

from exporter.analysis.engine import EngineWatch
from exporter.analysis.judgement import Assumptions
from exporter.analysis.speculation import Speculation
from exporter.config.pay_settings import CostSettings, LoadCost
from exporter.config.reference_settings import ReferenceSettings
from exporter.scrape.engines import Latency
from exporter.scrape.sample import Buckets

WALL = 1_790_000_000.0


@pytest.fixture(scope="session")
def busy_sample(make_sample):
    def busy_sample(n, tokens=8):
        """The sample of a second in which 20 requests ran, each with a draft of ``tokens`` a step."""
        return make_sample(
            400 * n,
            400 * tokens * n,
            sum((20 - place) * 10 for place in range(tokens)) * n,
            positions=[(20 - place) * 10 * n for place in range(tokens)],
            generation_tokens=1800 * n,
            first_tokens=5 * n,
            decode_steps=420 * n,
            decode_nanoseconds=20 * 10**9 * n,
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
        """A watch that was fed with samples, one a second, and the moment of the last."""
        watch = EngineWatch(windows, **options)
        moment = 0.0
        for moment, sample in enumerate(samples, 1):
            watch.observe(sample, float(moment), WALL + moment, 1.0, 1.0)
        return watch, float(moment)

    return watched


@pytest.fixture(scope="session")
def findings_of(watched):
    def findings_of(samples, windows=(30.0, 300.0), *, later=0.0, **options):
        watch, moment = watched(samples, windows, **options)
        return watch.findings(moment + later)

    return findings_of


@pytest.fixture(scope="session")
def busy(findings_of, busy_sample):
    """Findings about an engine with K = 8 and two full windows."""
    loads = [
        LoadCost(running_requests=10, draft_cost_ratio=0.1),
        LoadCost(running_requests=80, draft_cost_ratio=0.8),
    ]
    assumptions = Assumptions(
        Speculation("eagle3", "configured"),
        CostSettings(loads=loads),
        reference=ReferenceSettings(acceptance_ratio=0.55, tokens=8),
    )
    return findings_of([busy_sample(n) for n in range(310)], assumptions=assumptions)
