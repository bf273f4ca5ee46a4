"""Count the series of each profile, of a typical engine after hours of traffic."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Final

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.comparison_settings import CostSettings, LoadCost
from spec_decode_exporter.config.schema import Config, Metrics, Profile
from spec_decode_exporter.costs.baseline import COMPARED, Baseline, BaselineRequests, LearnedHistogram, Period
from spec_decode_exporter.metrics.page import MetricsPage
from spec_decode_exporter.monitor.engine_monitor import EngineMonitor
from spec_decode_exporter.monitor.snapshot import EngineSnapshot, ExporterStatus, Snapshot, TargetStatus
from spec_decode_exporter.scrape.engines import Counter, Gauge, Latency
from spec_decode_exporter.scrape.poll_record import PollRecord
from spec_decode_exporter.scrape.sample import Buckets, Sample

WINDOWS: Final = Config().windows
POLL_SECONDS: Final = 5.0
HOURS: Final = 2.5
"""Slow drops are known after two hours."""
LABELS: Final = {"target": "chat", "model_name": "llama", "engine": "0"}


@cache
def typical_engine(tokens: int) -> EngineSnapshot:
    """Return an engine with a configured cost that drafts ``tokens`` in each step, all windows full."""
    cost = CostSettings(
        loads=[
            LoadCost(running_requests=1, draft_cost_ratio=0.1),
            LoadCost(running_requests=64, draft_cost_ratio=0.5),
        ]
    )
    assumptions = Assumptions(Speculation("eagle3", "configured"), cost)
    monitor = EngineMonitor(WINDOWS, assumptions, _baseline())
    polls = round(HOURS * 3600 / POLL_SECONDS)
    for poll in range(polls + 1):
        now = poll * POLL_SECONDS
        for _ in monitor.observe(_sample(poll, tokens), now, now, 1.0, POLL_SECONDS):
            pass
    for _ in monitor.evaluate():
        pass
    if monitor.snapshot is None:
        raise AssertionError("an evaluation leaves a snapshot")
    return monitor.snapshot


def _baseline() -> Baseline:
    """Return an hour of the same requests without speculation, which took twice as long."""
    requests = BaselineRequests(14_400.0, 14_400 * 2e8, seconds=3600.0, running_seconds=4 * 3600.0)
    before = LearnedHistogram((0.1, 1.0), (0.0, 14_400.0, 14_400.0), -60.0)
    histograms = dict.fromkeys(COMPARED, before)
    return Baseline(Period(3600.0, -60.0, requests, histograms=histograms), ended=True)


def _sample(poll: int, tokens: int) -> Sample:
    """Return the page of a server with four running requests; four end and four begin each second."""
    requests = poll * 20
    positions = tuple(poll * 400 * (20 - place) // 40 for place in range(tokens))
    counters = {
        Counter.DRAFTS: poll * 400,
        Counter.DRAFT_TOKENS: poll * 400 * tokens,
        Counter.ACCEPTED_TOKENS: sum(positions),
        Counter.FIRST_TOKENS: requests,
        Counter.GENERATION_TOKENS: requests + poll * 400 + sum(positions),
        Counter.DECODE_STEPS: poll * 400,
        Counter.DECODE_NANOSECONDS: poll * 20 * 10**9,
        Counter.FIRST_TOKEN_NANOSECONDS: requests * 10**8,
        Counter.FINISHED_REQUESTS: requests,
    }
    gauges = {Gauge.RUNNING_REQUESTS: 4.0, Gauge.WAITING_REQUESTS: 0.0, Gauge.KV_CACHE_USAGE: 0.3}
    return Sample(
        counters=tuple(counters.get(counter, poll) for counter in Counter),
        positions=positions,
        gauges=tuple(gauges.get(gauge) for gauge in Gauge),
        created=0.0,
        latencies=dict.fromkeys(Latency, Buckets((0.1, 1.0, inf), (requests // 2, requests, requests))),
    )


def engine_series(profile: Profile, tokens: int) -> int:
    """Return the number of series of an engine that drafts ``tokens`` in each step."""
    return series(Snapshot([(LABELS, typical_engine(tokens))]), profile)


def target_series(profile: Profile) -> int:
    """Return the number of series of a target beside those of its engines."""
    record = PollRecord(up=True, engines=1, page="filtered", seconds=0.01, size=5_000, last_success=0.0)
    return series(Snapshot(targets=[({"target": "chat"}, TargetStatus(record))]), profile)


def exporter_series(profile: Profile) -> int:
    """Return the number of series of the exporter itself, without those of its process."""
    status = ExporterStatus(
        "1.0",
        "abc",
        "3.11",
        {"static": 1},
        config_hash=1,
        web_reload_successful=True,
        state_problem="",
        external_url="x",
    )
    return series(Snapshot(exporter=[({}, status)]), profile)


def series(snapshot: Snapshot, profile: Profile) -> int:
    """Return the number of series that a profile exports of a snapshot."""
    text = MetricsPage(lambda: Metrics(profile=profile)).text(snapshot)
    return sum(not line.startswith("#") for line in text.splitlines())
