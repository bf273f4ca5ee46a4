"""Baseline from a history: its server, the newest period without speculation, few queries, small slices."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.history import baseline_reader
from spec_decode_exporter.history.baseline_reader import (
    MAX_SECONDS,
    BaselineReader,
    FoundPeriod,
    add_readings,
    plain_periods,
    server_of,
)
from spec_decode_exporter.history.history_targets import HistoryTarget
from spec_decode_exporter.history.query_api import HistoryError, QueryApi, SampledSeries
from spec_decode_exporter.learned.steps import PER_DOUBLING
from spec_decode_exporter.scrape.engines import ENGINES, Counter
from spec_decode_exporter.simulator.scenario import Scenario
from tests.fakes.simulated_history import START, StoredHistory

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


def readings(tokens, drafts):
    """Return readings every 300 s; a dot is a counter that is absent."""
    rows = zip(tokens.split(), drafts.split(), strict=True)
    counters = Counter.GENERATION_TOKENS, Counter.DRAFTS
    return {
        300.0 * n: {name: float(each) for name, each in zip(counters, row, strict=True) if each != "."}
        for n, row in enumerate(rows)
    }


def minutes(periods):
    return [(each.begin / 60, each.end / 60, each.ended) for each in periods]


@pytest.mark.parametrize(
    ("tokens", "drafts", "expected"),
    [
        ("1 2 3 4", ". . . .", [(0, 100, False)]),
        ("1 2 3 4", "0 0 0 0", [(0, 100, False)]),
        ("1 2 3 4", "5 6 7 8", []),
        ("1 1 1 1", ". . . .", []),
        ("1 2 1 2 3", ". . 3 6 9", [(0, 10, True)]),
        ("1 2 1 2 3 1 4", "1 2 . . . 3 5", [(5, 25, True)]),
        ("1 2 1 2 1 2 1 2", ". . 1 2 . . 1 2", [(15, 30, True), (0, 10, True)]),
        ("1 2 2 2 2 3", ". . . . . .", [(0, 100, False)]),
        ("1 2 . . 1 2", ". . . . . .", [(0, 100, False)]),
        ("1 2 3 4", "5 5 5 5", []),
        ("", "", []),
    ],
    ids=[
        "without the counter",
        "with one at 0",
        "with drafts",
        "idle",
        "before drafts",
        "between drafts",
        "two, newest first",
        "idle time does not end it",
        "nor absence",
        "a pause of a server that has drafted",
        "nothing",
    ],
)
def test_periods_without_drafts_are_found(tokens, drafts, expected):
    assert minutes(plain_periods(readings(tokens, drafts), 6000.0)) == expected


def test_the_engines_of_a_model_are_summed_and_models_are_apart():
    def series(name, model, *values, engine="0"):
        labels = {"__name__": name, "model_name": model, "engine": engine}
        return SampledSeries(labels, [0.0, 300.0][: len(values)], values)

    found = defaultdict(dict)
    tokens, drafts = "vllm:generation_tokens_total", "vllm:spec_decode_num_drafts_total"
    first = (series(tokens, "a", 1.0, 2.0), series(tokens, "a", 3.0, 4.0, engine="1"), series("up", "a", 1.0))
    add_readings(first, found)
    add_readings([series(tokens, "b", 1.0, 2.0), series(drafts, "b", 5.0, 6.0)], found)
    assert found == {"a": readings("4 6", ". ."), "b": readings("1 2", "5 6")}
    assert [plain_periods(each, 400.0) for each in found.values()] == [
        [FoundPeriod(0.0, 400.0, ended=False)],
        [],
    ]


def server(**labels):
    return HistoryTarget(ENGINES[0], "vllm:", labels, created=True)


def target(*, url="http://10.0.0.1:8000/metrics", name="chat", **labels):
    return Target(url, name, tuple(sorted(labels.items())))


def found(target, *servers, is_only_target=False):
    return servers.index(server_of(target, servers, is_only_target=is_only_target))


def test_the_address_is_the_instance():
    assert found(target(), server(instance="10.0.0.2:8000"), server(instance="10.0.0.1:8000")) == 1


def test_the_name_may_be_the_instance():
    assert found(target(), server(instance="other"), server(instance="chat")) == 1


def test_of_two_servers_with_the_address_the_labels_decide():
    servers = [server(instance="10.0.0.1:8000", cluster=name) for name in ("one", "two")]
    assert found(target(cluster="two"), *servers) == 1


def test_without_the_address_the_labels_decide():
    servers = [server(instance=f"10.0.1.{n}:8000", pod=f"vllm-{n}", namespace="prod") for n in range(3)]
    assert found(target(pod="vllm-2", namespace="prod", team="a"), *servers) == 2


def test_one_server_alone_is_that_of_one_target_alone():
    alone = server(instance="elsewhere:8000")
    assert found(target(), alone, is_only_target=True) == 0
    with pytest.raises(HistoryError, match="none of the 1 servers there is this target: elsewhere:8000"):
        found(target(), alone)


def test_labels_that_contradict_do_not_fit():
    with pytest.raises(HistoryError, match=r"none of the 2 servers .* choose its server by `match`"):
        found(target(pod="a", namespace="n"), server(pod="b", namespace="n"), server(pod="c", namespace="n"))


def test_several_that_fit_are_named():
    servers = [server(instance=f"{n}", namespace="prod") for n in range(5)]
    with pytest.raises(
        HistoryError, match=r"5 servers there fit this target: 0, 1, 2 and others; choose one"
    ):
        found(target(namespace="prod"), *servers)


def test_a_hostile_name_is_short_and_printable():
    with pytest.raises(HistoryError) as error:
        found(target(), *(server(instance=f"\x1b{n}" * 4000) for n in range(3)))
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("value", [float("nan"), -1.0, 2.0**53])
def test_a_reading_that_no_counter_can_have_is_left_out(value):
    found = defaultdict(dict)
    labels = {"__name__": "vllm:generation_tokens_total"}
    add_readings([SampledSeries(labels, [0.0, 300.0], [1.0, value])], found)
    assert found == {"": {0.0: {Counter.GENERATION_TOKENS: 1.0}}}
