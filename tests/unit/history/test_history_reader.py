"""A history read from a query API, compared with the simulator's truth and with the raw samples."""

from __future__ import annotations

import asyncio
from functools import lru_cache

import pytest

from spec_decode_exporter.analysis.cost import CostSource
from spec_decode_exporter.history import history_pages, history_slots
from spec_decode_exporter.history.history_result import mean_speedup
from spec_decode_exporter.history.history_slots import SlotOutcome
from spec_decode_exporter.history.query_api import HistoryError, QueryApi
from spec_decode_exporter.scrape.errors import PollError, StatusError
from spec_decode_exporter.simulator.scenario import Scenario
from tests.fakes.scenarios import speedup
from tests.fakes.simulated_history import START, StoredHistory
from tests.unit.history.conftest import ENABLED, history_of

STEADY = {"speculation": {"tokens": 3, "method": "draft_model"}, "load": {"concurrency": 4}}


@lru_cache
def steady_pages(seconds, interval):
    stored = StoredHistory()
    stored.simulate(Scenario.model_validate(STEADY), seconds, interval)
    return stored


def stored_steady(seconds=1800, interval=15, **labels):
    """Return the history of a server; several tests share its simulation."""
    stored, simulated = StoredHistory(), steady_pages(seconds, interval)
    stored.now = simulated.now
    for key, samples in simulated.series.items():
        stored.series[tuple(sorted({*key, *labels.items(), ("job", "vllm")}))] = list(samples)
    return stored


def counter(stored, name):
    return next(samples for key, samples in stored.series.items() if dict(key)["__name__"] == name)


async def only_engine(stored, **options):
    (engine,) = (await history_of(stored, **options)).engines
    return engine


@pytest.mark.slow
async def test_the_speed_up_contains_the_truth_of_the_simulator(enabled):
    engine = await only_engine(enabled)
    truth = speedup(
        Scenario.model_validate({**ENABLED, "speculation": {"tokens": 4}, "phases": []}), 300, 2400
    )
    drafting = [slot for slot in engine.slots if slot.speedup and slot.seconds > 600]
    assert len(drafting) >= 2
    assert all(slot.speedup.lower <= truth <= slot.speedup.upper for slot in drafting)
    assert mean_speedup(engine.slots).value == pytest.approx(truth, rel=0.04)


async def test_time_before_speculation_was_enabled_is_its_baseline(enabled):
    engine = await only_engine(enabled)
    assert {slot.outcome for slot in engine.slots if slot.end < START + 1790} == {SlotOutcome.PLAIN}
    assert {slot.cost_source for slot in engine.slots if slot.drafts} == {"baseline"}
    (period,) = engine.baselines
    assert 1200 < period.seconds <= 1800


@pytest.mark.parametrize("jitter", [0.0, 0.4])
async def test_no_increment_is_lost_or_counted_twice(jitter):
    stored = StoredHistory()
    late = {"jitter": lambda number: jitter * (number % 3)}
    stored.simulate(Scenario.model_validate(STEADY), 4000, 15, instance="a:8000", **late)
    engine = await only_engine(stored)
    first, *_, last = counter(stored, "vllm:generation_tokens_total")
    assert len(engine.slots) > 4
    assert sum(slot.generated for slot in engine.slots) == last[1] - first[1]
    first, *_, last = counter(stored, "vllm:spec_decode_num_drafts_total")
    assert sum(slot.drafts for slot in engine.slots) == last[1] - first[1]
    assert sum(slot.seconds for slot in engine.slots) == pytest.approx(last[0] - first[0])


async def test_a_restart_with_another_k_divides_a_slot():
    stored = StoredHistory()
    phases = [{"at": "10m", "restart": {"down": "20s", "tokens": 2}}]
    stored.simulate(Scenario.model_validate({**STEADY, "phases": phases}), 1500, 15, instance="a:8000")
    engine = await only_engine(stored)
    assert {slot.tokens for slot in engine.slots if slot.end <= START + 600} == {3}
    assert {slot.tokens for slot in engine.slots if slot.begin >= START + 600} == {2}
    drafts = sum(slot.drafts for slot in engine.slots if slot.tokens == 3)
    counted = [
        value for time, value in counter(stored, "vllm:spec_decode_num_drafts_total") if time < START + 600
    ]
    assert drafts == counted[-1] - counted[0]


@pytest.mark.parametrize(("begin", "end"), [(300, 1200), (200, 800)], ids=["over two slots", "in one slot"])
async def test_a_gap_belongs_to_no_slot(begin, end):
    stored = stored_steady(instance="a:8000")
    for samples in stored.series.values():
        samples[:] = [pair for pair in samples if not START + begin < pair[0] < START + end]
    engine = await only_engine(stored)
    assert sum(slot.seconds for slot in engine.slots) == pytest.approx(1800 - (end - begin), abs=15)
    assert not any(slot.begin < START + (begin + end) / 2 < slot.end for slot in engine.slots)


async def test_both_replicas_of_a_pair_count_once():
    stored = stored_steady(instance="a:8000", prometheus_replica="one")
    scenario = Scenario.model_validate(STEADY)
    stored.simulate(
        scenario, 1800, 15, jitter=lambda _: 7.0, job="vllm", instance="a:8000", prometheus_replica="two"
    )
    engine = await only_engine(stored)
    assert engine.scrapes == pytest.approx(120, abs=2)


async def test_the_same_counter_under_unknown_labels_counts_once():
    stored = stored_steady(instance="a:8000", collector="one")
    scenario = Scenario.model_validate(STEADY)
    stored.simulate(scenario, 1800, 15, jitter=lambda _: 7.0, job="vllm", instance="a:8000", collector="two")
    result = await history_of(stored)
    assert len(result.engines) == 1
    assert "Counted once: 1 targets" in result.notes[0]


async def test_two_servers_with_one_address_in_two_clusters_are_two():
    stored = stored_steady(instance="a:8000", cluster="one")
    stored.simulate(
        Scenario.model_validate(STEADY), 1800, 15, seed=9, job="vllm", instance="a:8000", cluster="two"
    )
    assert len((await history_of(stored)).engines) == 2


async def test_a_limit_of_samples_leads_to_smaller_pages():
    stored = stored_steady(instance="a:8000")
    whole = await only_engine(stored)
    stored.max_samples = 600
    pages = len(stored.queries)
    assert (await only_engine(stored)).slots == whole.slots
    assert len(stored.queries) > pages + 10


async def test_a_server_that_refuses_every_page_is_an_error():
    stored = stored_steady(instance="a:8000")
    stored.max_samples = 10
    with pytest.raises(HistoryError, match=r"422 .* even for 60 s"):
        await history_of(stored)


async def test_a_server_that_fails_later_leaves_an_incomplete_report():
    stored = stored_steady(instance="a:8000")
    stored.refuse = lambda _: PollError("refused", "connection refused") if len(stored.queries) > 2 else None
    result = await history_of(stored, begin=START - 3000)
    assert "connection refused" in result.incomplete
    assert result.engines[0].slots


async def test_an_interrupted_run_has_what_was_read():
    stored = stored_steady(instance="a:8000")
    stop = asyncio.Event()
    result = await history_of(stored, begin=START - 3000, progress=lambda _: stop.set(), stop=stop)
    assert result.incomplete.startswith("interrupted while reading a:8000")
    assert result.engines[0].slots


async def test_without_known_metrics_the_nearest_names_are_listed():
    stored = StoredHistory()
    stored.series[("__name__", "vllm:generated_tokens_total"),] = [(START, 1.0)]
    stored.series[("__name__", "go_goroutines"),] = [(START, 1.0)]
    with pytest.raises(HistoryError, match=r"nearest names are vllm:generated_tokens_total$"):
        await history_of(stored)


async def test_metrics_that_the_matchers_exclude_are_named():
    with pytest.raises(HistoryError, match=r'with job="other".*check --match'):
        await history_of(stored_steady(60, instance="a:8000"), match='job="other"')


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (StatusError(404), "Give the address of a Prometheus"),
        (StatusError(403), "no permission to query; give a token"),
        (StatusError(400), "check --match"),
        (PollError("refused", "connection refused"), "connection refused"),
    ],
)
async def test_an_error_names_the_cause_and_the_remedy(error, text):
    stored = StoredHistory()
    stored.refuse = lambda _: error
    with pytest.raises(HistoryError, match=text):
        await history_of(stored)


async def test_names_without_a_colon_are_read():
    stored = stored_steady(900, instance="a:8000")
    stored.series = {
        tuple(
            sorted({**dict(key), "__name__": dict(key)["__name__"].replace("vllm:", "vllm_")}.items())
        ): each
        for key, each in stored.series.items()
    }
    assert (await only_engine(stored)).slots[0].drafts


@pytest.mark.parametrize(("marks", "periods"), [((), 1), (("python_info",), 0)])
async def test_a_server_without_pythons_series_counts_drafts_at_0_without_speculation(marks, periods):
    """vLLM's Rust front end: its time without drafts is a baseline, that of a Python server only idle."""
    stored = stored_steady(900, instance="a:8000")
    python = {"process_start_time_seconds", "python_info"} - set(marks)
    kept = {}
    for key, samples in stored.series.items():
        name = dict(key)["__name__"]
        if name in python or name.endswith("_created") or "per_pos" in name:
            continue
        kept[key] = [(time, 0.0) for time, _ in samples] if "spec_decode" in name else samples
    stored.series = kept
    engine = await only_engine(stored)
    assert {slot.outcome for slot in engine.slots} == {SlotOutcome.PLAIN}
    assert len(engine.baselines) == periods


@pytest.mark.parametrize("is_victoria", [False, True])
async def test_the_servers_time_is_a_scalar_or_a_vector(is_victoria):
    stored = StoredHistory()
    stored.is_victoria = is_victoria
    assert await QueryApi("http://p:9090", stored).time() == START


SATURATED = {"saturation": 100}
"""A machine whose steps are longer from 100 tokens on: there drafts do not pay at a high load."""


def saturated(tokens, load):
    speculation = {"tokens": tokens, "method": "draft_model"}
    return {"speculation": speculation, "load": {"concurrency": load}, "machine": SATURATED}


async def setting_of(*phases, seconds=2400, load=4):
    stored = StoredHistory()
    scenario = Scenario.model_validate({**saturated(0, load), "phases": list(phases)})
    stored.simulate(scenario, seconds, 15, job="vllm", instance="a:8000")
    (engine,) = (await history_of(stored)).engines
    return engine.setting


def fewest(load):
    """Return the fewest tokens within 3 % of the best by the simulator's truth, and the speed-up of four."""
    exact = {
        tokens: speedup(Scenario.model_validate(saturated(tokens, load)), 120, 500) for tokens in (1, 2, 3, 4)
    }
    enough = 0.97 * max(1.0, *exact.values())
    return next(tokens for tokens, value in exact.items() if value >= enough), exact[4]


@pytest.mark.slow
async def test_the_tokens_by_load_are_those_of_the_simulators_truth():
    found = await setting_of(
        {"at": "10m", "load": {"concurrency": 64}},
        {"at": "20m", "restart": {"down": "20s", "tokens": 4}, "load": {"concurrency": 4}},
        {"at": "30m", "load": {"concurrency": 64}},
    )
    assert found.loads == pytest.approx((4, 64), abs=1)
    assert found.setting.source is CostSource.BASELINE
    for load, band in ((4, found.setting.bands[0]), (64, found.setting.bands[-1])):
        tokens, exact = fewest(load)
        assert band.tokens == tokens
        assert band.present_speedup_ratio == pytest.approx(exact, rel=0.15)


async def test_with_the_cost_at_one_load_it_is_unknown():
    found = await setting_of({"at": "10m", "restart": {"down": "20s", "tokens": 3}}, seconds=1500)
    assert found.setting is None
    assert found.loads == (pytest.approx(4, abs=1),)


async def test_without_drafts_there_is_none():
    assert await setting_of(seconds=600) is None


async def test_counters_that_fall_every_minute_are_of_several_servers(monkeypatch):
    monkeypatch.setattr(history_slots, "MAX_SLOTS", 20)
    stored = stored_steady(instance="a:8000")
    for key, samples in stored.series.items():
        if dict(key)["__name__"].endswith("_total"):
            samples[:] = [(time, 1000.0 * (number % 4)) for number, (time, _) in enumerate(samples)]
    assert "its counters fell 19 times" in (await history_of(stored)).incomplete


async def test_engines_that_change_with_the_time_are_of_several_servers(monkeypatch):
    monkeypatch.setattr(history_pages, "MAX_ENGINES", 3)
    stored, whole = StoredHistory(), stored_steady(instance="a:8000")
    stored.now = whole.now
    for key, samples in whole.series.items():
        for number in range(5):
            name = tuple(sorted({**dict(key), "engine": str(number)}.items()))
            stored.series[name] = samples[20 * number : 20 * number + 20]
    result = await history_of(stored)
    assert "more than 3 engines" in result.incomplete
    assert len(result.engines) == 3


async def test_a_scrape_with_a_number_that_no_counter_has_is_left_out_with_a_note():
    stored = stored_steady(instance="a:8000")
    whole = await only_engine(stored)
    samples = counter(stored, "vllm:generation_tokens_total")
    samples[30] = (samples[30][0], float("inf"))
    result = await history_of(stored)
    assert result.notes == (
        "a:8000: 1 scrapes left out: a counter has the value nan, which no counter can have.",
    )
    assert result.engines[0].scrapes == whole.scrapes - 1
    assert sum(slot.generated for slot in result.engines[0].slots) == sum(
        each.generated for each in whole.slots
    )
