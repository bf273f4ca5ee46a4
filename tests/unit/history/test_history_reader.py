"""A history read from a query API, compared with the simulator's truth and with the raw samples."""

import asyncio

import pytest

from spec_decode_exporter.analysis.knowledge import Assumptions
from spec_decode_exporter.history import history_pages, history_reader
from spec_decode_exporter.history.history_reader import HistoryQuery, SlotOutcome, read_history
from spec_decode_exporter.history.query_api import HistoryError, QueryApi
from spec_decode_exporter.reports.history_report import changes, history_text, observation
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.scrape.errors import PollError, StatusError
from spec_decode_exporter.simulator.scenario import Scenario
from tests.fakes.scenarios import speedup
from tests.fakes.simulated_history import START, StoredHistory
from tests.unit.history.conftest import DRAFTING, ENABLED, PLAIN, history_of, simulated

STEADY = Scenario.model_validate(
    {"speculation": {"tokens": 3, "method": "draft_model"}, "load": {"concurrency": 4}}
)


def counter(stored, name):
    return next(samples for key, samples in stored.series.items() if dict(key)["__name__"] == name)


async def only_engine(stored, **options):
    (engine,) = (await history_of(stored, **options)).engines
    return engine


async def test_the_speed_up_contains_the_truth_of_the_simulator(enabled):
    engine = await only_engine(enabled)
    truth = speedup(
        Scenario.model_validate({**ENABLED, "speculation": {"tokens": 4}, "phases": []}), 120, 1200
    )
    drafting = [slot for slot in engine.slots if slot.speedup and slot.seconds > 600]
    assert len(drafting) >= 2
    assert all(slot.speedup.lower <= truth <= slot.speedup.upper for slot in drafting)
    weights = [slot.decode_seconds for slot in drafting]
    means = [slot.speedup.value * weight for slot, weight in zip(drafting, weights, strict=True)]
    assert sum(means) / sum(weights) == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("late", [(0.0,), (0.0, 0.4, 0.8)], ids=["regular scrapes", "irregular scrapes"])
async def test_no_increment_is_lost_or_counted_twice(late):
    stored = simulated(STEADY, 3000, late=late)
    engine = await only_engine(stored)
    assert len(engine.slots) > 3
    for name, field in (("generation_tokens", "generated"), ("spec_decode_num_drafts", "drafts")):
        first, *_, last = counter(stored, f"vllm:{name}_total")
        assert sum(getattr(slot, field) for slot in engine.slots) == last[1] - first[1]
    assert sum(slot.seconds for slot in engine.slots) == pytest.approx(last[0] - first[0])


async def test_a_restart_with_another_k_divides_a_slot():
    phases = [{"at": "10m", "restart": {"down": "20s", "tokens": 2}}]
    stored = simulated(Scenario.model_validate({**STEADY.model_dump(mode="json"), "phases": phases}), 1200)
    engine = await only_engine(stored)
    assert {slot.tokens for slot in engine.slots if slot.end <= START + 600} == {3}
    assert {slot.tokens for slot in engine.slots if slot.begin >= START + 600} == {2}
    drafts = sum(slot.drafts for slot in engine.slots if slot.tokens == 3)
    samples = counter(stored, "vllm:spec_decode_num_drafts_total")
    counted = [value for time, value in samples if time < START + 600]
    assert drafts == counted[-1] - counted[0]


@pytest.mark.parametrize(("begin", "end"), [(300, 1200), (200, 800)], ids=["over two slots", "in one slot"])
async def test_a_gap_belongs_to_no_slot(begin, end):
    stored = simulated(STEADY, 1800)
    for samples in stored.series.values():
        samples[:] = [pair for pair in samples if not START + begin < pair[0] < START + end]
    engine = await only_engine(stored)
    assert sum(slot.seconds for slot in engine.slots) == pytest.approx(1800 - (end - begin), abs=15)
    assert not any(slot.begin < START + (begin + end) / 2 < slot.end for slot in engine.slots)


@pytest.mark.parametrize(
    ("label", "is_known", "begun", "engines"),
    [
        pytest.param("prometheus_replica", True, 0, 1, id="a pair of replicas is one server"),
        pytest.param("collector", False, 0, 1, id="the same process under unknown labels is one server"),
        pytest.param("cluster", True, 60, 2, id="a process that began at another time is another server"),
    ],
)
async def test_servers_that_are_scraped_twice(label, is_known, begun, engines):
    stored = simulated(STEADY, 1800, **{label: "one"})
    labels = {"job": "vllm", "instance": "a:8000", label: "two"}
    other = StoredHistory(start=START + begun)
    other.simulate(STEADY, 1800, late=(7.0,), **labels)
    stored.series |= other.series
    result = await history_of(stored)
    assert [engine.scrapes for engine in result.engines] == pytest.approx([120] * engines, abs=5)
    assert is_known or "Counted once: 1 targets" in result.notes[0]


async def test_a_limit_of_samples_leads_to_smaller_pages():
    stored = simulated(STEADY, 1800)
    whole = await only_engine(stored)
    stored.max_samples = 600
    pages = len(stored.queries)
    assert (await only_engine(stored)).slots == whole.slots
    assert len(stored.queries) > pages + 10


async def test_a_server_that_refuses_every_page_is_an_error():
    stored = simulated(STEADY, 1800)
    stored.max_samples = 10
    with pytest.raises(HistoryError, match=r"422 .* even for 60 s"):
        await history_of(stored)


async def test_a_server_that_fails_later_leaves_an_incomplete_report():
    stored = simulated(STEADY, 1800)

    def refused(_):
        pages = [each for each in stored.queries if "num_requests_running" in each.get("query", "")]
        return PollError("refused", "connection refused") if len(pages) > 1 else None

    stored.refuse = refused
    result = await history_of(stored, begin=START - 3000)
    assert "connection refused" in result.incomplete
    assert result.engines[0].slots


async def test_an_interrupted_run_has_what_was_read():
    stored = simulated(STEADY, 1800)
    stop = asyncio.Event()
    result = await history_of(stored, begin=START - 3000, progress=lambda _: stop.set(), stop=stop)
    assert result.incomplete.startswith("interrupted while reading a:8000")
    assert result.engines[0].slots


async def test_an_interrupt_does_not_wait_for_a_slow_answer():
    stored, stop = simulated(STEADY, 1800), asyncio.Event()
    query = HistoryQuery(START - 3000, stored.now + 1)
    api = QueryApi("http://p:9090", stored, stop=stop)
    answers = stored.get

    async def slow(address, *, max_body=None):
        if any("num_requests_running" in each.get("query", "") for each in stored.queries):  # a page is read
            stop.set()
            await asyncio.Event().wait()
        return await answers(address)

    stored.get = slow
    result = await read_history(api, query, lambda _: Assumptions(), stop=stop)
    assert result.incomplete.startswith("interrupted while reading a:8000")
    with pytest.raises(HistoryError, match="http://p:9090: interrupted"):
        await api.metric_names(0.0, 1.0)


async def test_without_known_metrics_the_nearest_names_are_listed():
    stored = StoredHistory()
    stored.series[("__name__", "vllm:generated_tokens_total"),] = [(START, 1.0)]
    stored.series[("__name__", "go_goroutines"),] = [(START, 1.0)]
    with pytest.raises(HistoryError, match=r"nearest names are vllm:generated_tokens_total$"):
        await history_of(stored)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (StatusError(404), "Give the address of a Prometheus"),
        (StatusError(403), "no permission to query; give a token"),
        (StatusError(400), "check --match"),
        (
            PollError("tls", "certificate verify failed"),
            "give its authority by SPEC_DECODE_EXPORTER_TLS_CA_FILE",
        ),
        (PollError("refused", "connection refused"), "connection refused"),
    ],
)
async def test_an_error_names_the_cause_and_the_remedy(error, text):
    stored = StoredHistory()
    stored.refuse = lambda _: error
    with pytest.raises(HistoryError, match=text):
        await history_of(stored)


async def test_counters_that_fall_every_minute_are_of_several_servers(monkeypatch):
    monkeypatch.setattr(history_reader, "MAX_SLOTS", 20)
    stored = simulated(STEADY, 1800)
    for key, samples in stored.series.items():
        if dict(key)["__name__"].endswith("_total"):
            samples[:] = [(time, 1000.0 * (number % 4)) for number, (time, _) in enumerate(samples)]
    assert "its counters fell 19 times" in (await history_of(stored)).incomplete


async def test_engines_that_change_with_the_time_are_of_several_servers(monkeypatch):
    monkeypatch.setattr(history_pages, "MAX_ENGINES", 3)
    stored, whole = StoredHistory(), simulated(STEADY, 1800)
    stored.now = whole.now
    for key, samples in whole.series.items():
        for number in range(5):
            name = tuple(sorted({**dict(key), "engine": str(number)}.items()))
            stored.series[name] = samples[20 * number : 20 * number + 20]
    result = await history_of(stored)
    assert "more than 3 engines" in result.incomplete
    assert len(result.engines) == 3


async def test_a_scrape_with_a_number_that_no_counter_has_is_left_out_with_a_note():
    stored = simulated(STEADY, 1800)
    whole = await only_engine(stored)
    samples = counter(stored, "vllm:generation_tokens_total")
    samples[30] = (samples[30][0], float("inf"))
    result = await history_of(stored)
    assert result.notes == [
        "a:8000: 1 scrapes left out: a counter has the value nan, which no counter can have."
    ]
    assert result.engines[0].scrapes == whole.scrapes - 1
    assert sum(slot.generated for slot in result.engines[0].slots) == sum(
        each.generated for each in whole.slots
    )


async def test_a_pod_that_replaces_one_without_speculation_has_its_baseline():
    """``test_baseline_reader.py`` has the pods that have none."""
    rollout = {"job": "vllm", "namespace": "prod"}
    before = {"pod": "vllm-6c9f8d7b5-x2x9w", "instance": "10.0.0.1:8000"}
    after = {"pod": "vllm-7d5b9c6f4-k8s2p", "instance": "10.0.0.2:8000"}
    stored, later = StoredHistory(), StoredHistory(start=START + 1800)
    stored.simulate(PLAIN, 1800, **rollout, **before)
    later.simulate(DRAFTING, 900, seed=5, **rollout, **after)
    stored.series |= later.series
    stored.now = later.now
    first, second = (await history_of(stored)).engines
    assert first.baseline
    assert second.baseline
    assert (first.baseline_of, second.baseline_of) == ("", "10.0.0.1:8000 (vllm-6c9f8d7b5-x2x9w)")


async def test_the_newest_time_with_drafts_is_reported_as_an_observation_is(enabled):
    its = await history_of(enabled)
    (engine,), view = its.engines, observation(its)
    assert view.engines[0].configured_tokens == 4
    assert view.seconds == engine.reported_seconds == pytest.approx(75 * 60 - 1800, abs=120)
    drafts = sum(slot.drafts for slot in engine.slots)
    assert view.engines[0].windows[-1].counts.drafts == pytest.approx(drafts, rel=0.05)
    text = history_text(its, TextStyle())
    assert text.startswith("**PAID**")
    assert text.index("### Positions") < text.index("# Over time")
    assert "configured_tokens_changed" in {each.type for each in changes(engine)}


@pytest.mark.parametrize(
    ("renamed", "slots", "note"),
    [
        pytest.param({"spec_decode_num_drafts_total": ""}, {SlotOutcome.UNCOUNTED}, "vllm:spec_decode_num_drafts_total is missing here.", id="draft tokens alone"),
        pytest.param({"spec_decode_num_dr": "", "spec_decode_num_accepted_tokens_total": ""}, {SlotOutcome.UNCOUNTED}, "vllm:spec_decode_num_drafts_total is missing here.", id="positions alone"),
        pytest.param({"spec_decode": ""}, {SlotOutcome.UNCOUNTED}, "", id="no counter of speculation"),
        pytest.param({"spec_decode": "", "inter_token_latency": ""}, {SlotOutcome.UNKNOWN}, "vllm:inter_token_latency_seconds_count is missing", id="nor steps"),
    ],
)  # fmt: skip
async def test_missing_counters_are_named_and_are_no_time_without_drafts(renamed, slots, note):
    stored, its = simulated(STEADY, 900), StoredHistory()
    gone = [name for name, new in renamed.items() if not new]
    its.now = stored.now
    its.series = {
        key: each
        for key, each in stored.series.items()
        if not any(f":{name}" in dict(key)["__name__"] for name in gone)
    }
    found = await history_of(its)
    assert {slot.outcome for slot in found.engines[0].slots} == slots
    assert note in "".join(found.notes)
    assert bool(found.incomplete) == bool(note)


async def test_without_generated_tokens_the_near_names_are_an_error():
    stored, its = simulated(STEADY, 900), StoredHistory()
    its.now = stored.now
    for key, each in stored.series.items():
        name = dict(key)["__name__"]
        twice = f"{name}_total" if name.endswith("_total") else name
        its.series[tuple(sorted({**dict(key), "__name__": twice}.items()))] = each
    with pytest.raises(HistoryError, match="nearest names are vllm:generation_tokens_total_total"):
        await history_of(its)


async def test_a_server_that_takes_exact_names_only_has_the_same_history():
    stored = simulated(STEADY, 900)
    whole = await only_engine(stored)
    stored.takes_patterns = False
    assert (await only_engine(stored)).slots == whole.slots
    stored.refuse = lambda address: PollError("refused", "no names") if "values" in address else None
    with pytest.raises(HistoryError, match=r"metric names are not supported.* check --match"):
        await history_of(stored)
