"""Baseline from a history: the newest period without speculation, by few queries, in small slices."""

from __future__ import annotations

import asyncio

import pytest

from spec_decode_exporter.history import baseline_reader
from spec_decode_exporter.history.baseline_reader import MAX_SECONDS, BaselineReader
from spec_decode_exporter.history.query_api import HistoryError, QueryApi
from spec_decode_exporter.learned.steps import PER_DOUBLING
from spec_decode_exporter.simulator.scenario import Scenario
from tests.fixtures.simulated_history import START, StoredHistory

DAY = 86_400.0
PLAIN = {"speculation": {"tokens": 0, "method": "draft_model"}, "load": {"concurrency": 8}}


def reader(stored, lookback=DAY, end=None):
    end = stored.now + 1 if end is None else end
    return BaselineReader(QueryApi("http://p:9090", stored), "", end - lookback, end)


async def baselines(stored, **options):
    reading = reader(stored, **options)
    (server,) = await reading.servers()
    return await reading.read(server)


def simulated(seconds, interval=15, labels=(), **scenario):
    stored = StoredHistory()
    wanted = {"job": "vllm", "instance": "a:8000", **dict(labels)}
    stored.simulate(Scenario.model_validate({**PLAIN, **scenario}), seconds, interval, **wanted)
    return stored


async def test_time_before_speculation_is_the_baseline(enabled):
    ((model, baseline),) = (await baselines(enabled)).items()
    period = baseline.period(enabled.now)
    assert model == Scenario().model_name
    assert 1200 < period.seconds <= 1800
    assert period.end == pytest.approx(START + 1800, abs=120)
    assert period.request.first_token_seconds > 0
    most = max(baseline.kept.steps.places.items(), key=lambda item: item[1].polls)
    assert 2 ** (most[0] / PER_DOUBLING) == pytest.approx(8, rel=0.2)


async def test_only_the_period_is_read_closely(enabled):
    before = len(enabled.queries)
    await baselines(enabled, lookback=14 * DAY)
    close = [each for each in enabled.queries[before:] if each.get("query", "").endswith("s]")]
    ends = [float(each["time"]) for each in close if "num_requests_running" in each["query"]]
    assert ends
    assert min(ends) > START
    assert max(ends) <= START + 1800 + 2 * baseline_reader.MIN_STEP
    assert sum(each.get("step") is not None for each in enabled.queries[before:]) <= 8


async def test_a_long_period_is_read_at_its_end(monkeypatch):
    monkeypatch.setattr(baseline_reader, "MAX_SECONDS", 1200.0)
    (baseline,) = (await baselines(simulated(3600))).values()
    period = baseline.period(START + 3600)
    assert period.seconds == pytest.approx(1200, abs=60)
    assert period.end == pytest.approx(START + 3600, abs=300)
    assert MAX_SECONDS == DAY


async def test_a_gap_is_not_learned():
    stored = simulated(2400)
    for samples in stored.series.values():
        samples[:] = [pair for pair in samples if not START + 600 < pair[0] < START + 1500]
    (baseline,) = (await baselines(stored)).values()
    assert baseline.period(stored.now).seconds == pytest.approx(1500, abs=150)


async def test_without_such_a_period_the_lookback_is_named():
    stored = simulated(900)
    for key in list(stored.series):
        if "num_requests_running" not in dict(key)["__name__"]:
            stored.series[key] = [(time, 1.0) for time, _ in stored.series[key]]
    with pytest.raises(HistoryError, match="a longer `lookback` may have one"):
        await baselines(stored)


async def test_a_pause_of_a_server_that_speculates_is_no_baseline():
    stored = simulated(1200, speculation={"tokens": 3, "method": "draft_model"})
    with pytest.raises(HistoryError, match="no period of this server without speculation"):
        await baselines(stored)


async def test_without_known_metrics_the_keys_are_named():
    with pytest.raises(HistoryError, match=r"`baseline.prometheus.match` and `lookback`"):
        await reader(StoredHistory()).servers()


async def test_both_replicas_of_a_pair_are_one_server():
    stored = simulated(900, labels={"prometheus_replica": "one"})
    stored.series |= {
        tuple(sorted({**dict(key), "prometheus_replica": "two"}.items())): samples
        for key, samples in stored.series.items()
    }
    assert len(await reader(stored).servers()) == 1


async def test_a_limit_of_samples_leads_to_smaller_pages():
    stored = simulated(1800)
    (whole,) = (await baselines(stored)).values()
    stored.max_samples = 1000
    (again,) = (await baselines(stored)).values()
    assert again.kept.steps == whole.kept.steps
    assert again.kept.requests == whole.kept.requests


async def test_samples_beyond_the_limit_are_not_read(monkeypatch):
    monkeypatch.setattr(baseline_reader, "MAX_SAMPLES", 100)
    stored = simulated(3600)
    (baseline,) = (await baselines(stored)).values()
    assert baseline.period(stored.now).seconds <= 1200


async def test_the_event_loop_goes_on_meanwhile():
    stored = simulated(3600, interval=1)
    reading = asyncio.ensure_future(baselines(stored))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert await reading
    assert turns > 0.9 * 3600 / baseline_reader.SCRAPES_SLICE
