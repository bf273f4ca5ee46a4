"""Baseline from a history: its server, the newest period without speculation, few queries, small slices."""

import re
from dataclasses import replace

import pytest

from spec_decode_exporter.costs.steps import PER_DOUBLING
from spec_decode_exporter.discovery.target import Target
from spec_decode_exporter.history import baseline_reader
from spec_decode_exporter.history.baseline_reader import (
    Activity,
    BaselineReader,
    FoundPeriod,
    plain_periods,
    server_of,
)
from spec_decode_exporter.history.history_targets import HistoryTarget
from spec_decode_exporter.history.query_api import HistoryError, QueryApi, SampledSeries
from spec_decode_exporter.scrape.engines import DRAFTS, ENGINES, Counter, Latency
from spec_decode_exporter.scrape.sample import EngineName
from tests.fakes.simulated_history import START, StoredHistory
from tests.unit.history.conftest import PLAIN, history_of, simulated

DAY = 86_400.0


async def found_baselines(stored, instance=None, lookback=DAY):
    """Return what is found for the only server of the history, or of an instance, by model."""
    end = stored.now + 1
    reading = BaselineReader(QueryApi("http://p:9090", stored), "", end - lookback, end)
    servers = await reading.servers()
    (server,) = (each for each in servers if instance is None or each.labels["instance"] == instance)
    return await reading.read(server)


async def test_time_before_speculation_is_the_baseline(enabled):
    ((model, found),) = (await found_baselines(enabled)).items()
    period = found.baseline.summary(enabled.now)
    assert model == PLAIN.model_name
    assert 1200 < period.seconds <= 1800
    assert period.end == pytest.approx(START + 1800, abs=120)
    assert period.first_token_seconds > 0
    most = max(found.baseline.kept.steps.places.items(), key=lambda item: item[1].polls)
    assert 2 ** (most[0] / PER_DOUBLING) == pytest.approx(8, rel=0.2)


async def test_its_latencies_are_those_of_the_requests_without_speculation(enabled):
    (found,) = (await found_baselines(enabled)).values()
    kept = found.baseline.kept
    requests, (first, token) = kept.requests.first_tokens, kept.histograms.items()
    assert first[0] is Latency.TIME_TO_FIRST_TOKEN
    assert first[1].counts[-1] == pytest.approx(requests, rel=0.1)
    assert token[1].counts[-1] == pytest.approx(requests, rel=0.1)
    # Without speculation few requests take less than 25 ms a token, with it most of them.
    assert token[1].counts[token[1].bounds.index(0.025)] == pytest.approx(0.05 * requests, rel=0.2)


async def test_a_history_without_histograms_has_a_baseline_without_latencies(enabled):
    stored = StoredHistory()
    stored.now = enabled.now
    stored.series = {key: each for key, each in enabled.series.items() if "le" not in dict(key)}
    (found,) = (await found_baselines(stored)).values()
    assert found.baseline.summary(stored.now).first_token_seconds is not None
    assert found.baseline.kept.histograms == {}


async def test_only_the_period_is_read_closely(enabled):
    before = len(enabled.queries)
    await found_baselines(enabled, lookback=14 * DAY)
    close = [each for each in enabled.queries[before:] if each.get("query", "").endswith("s]")]
    ends = [float(each["time"]) for each in close if "num_requests_running" in each["query"]]
    assert ends
    assert min(ends) > START
    assert max(ends) <= START + 1800 + 2 * baseline_reader.MIN_STEP
    assert sum(each.get("step") is not None for each in enabled.queries[before:]) <= 8


async def test_a_long_period_is_read_at_its_end(monkeypatch):
    monkeypatch.setattr(baseline_reader, "MAX_SECONDS", 900.0)
    stored = simulated(PLAIN, 1800)
    (found,) = (await found_baselines(stored)).values()
    period = found.baseline.summary(stored.now)
    assert 0 < period.seconds <= 960
    assert period.end == pytest.approx(START + 1800, abs=300)


async def test_without_such_a_period_the_lookback_is_named():
    stored = simulated(PLAIN, 900)
    for key in list(stored.series):
        if "num_requests_running" not in dict(key)["__name__"]:
            stored.series[key] = [(time, 1.0) for time, _ in stored.series[key]]
    with pytest.raises(HistoryError, match="a longer `lookback` may have one"):
        await found_baselines(stored)


async def test_without_known_metrics_the_keys_are_named():
    with pytest.raises(HistoryError, match=r"`baseline.prometheus.match` and `lookback`"):
        await found_baselines(StoredHistory())


@pytest.mark.parametrize(
    ("tokens", "drafts", "expected"),
    [
        pytest.param("1 2 3 4", ". . . .", [(0, 100, False)], id="without the counter"),
        pytest.param("1 2 3 4", "0 0 0 0", [(0, 100, False)], id="with one at 0"),
        pytest.param("1 2 3 4", "5 6 7 8", [], id="with drafts"),
        pytest.param("1 1 1 1", ". . . .", [], id="idle"),
        pytest.param("1 2 1 2 3", ". . 1 2 3", [(0, 10, True)], id="before drafts"),
        pytest.param("1 2 1 2 3 1 4", "1 2 . . . 1 3", [(5, 25, True)], id="between drafts"),
        pytest.param("1 2 1 2 1 2 1 2", ". . 1 2 . . 1 2", [(15, 30, True), (0, 10, True)], id="two, newest first"),
        pytest.param("1 2 2 2 2 3", ". . . . . .", [(0, 100, False)], id="idle time does not end it"),
        pytest.param("1 2 . . 1 2", ". . . . . .", [(0, 100, False)], id="nor absence"),
        pytest.param("1 2 3 4", "5 5 5 5", [], id="a pause of a server that has drafted"),
        pytest.param("1 2 3 4 5", ". . . 9 10", [], id="before drafts that began long before they were kept"),
        pytest.param("10 20 5 9", ". . 4 8", [(0, 10, True)], id="before drafts of a new process"),
        pytest.param("", "", [], id="nothing"),
    ],
)  # fmt: skip
def test_periods_without_drafts_are_found(tokens, drafts, expected):
    """Readings are every 300 s, and those expected in minutes; a dot is a counter that is absent."""
    rows = zip(tokens.split(), drafts.split(), strict=True)
    counters = Counter.GENERATION_TOKENS, Counter.DRAFTS
    readings = {
        300.0 * n: {name: float(each) for name, each in zip(counters, row, strict=True) if each != "."}
        for n, row in enumerate(rows)
    }
    found = plain_periods(readings, 6000.0)
    assert [(each.begin / 60, each.end / 60, each.ended) for each in found] == expected


def activity(*series, now=600.0):
    """Return the work that readings say."""
    reading = Activity()
    reading.add(series)
    reading.finish(now, 300.0)
    return reading


def series(name, *values, model="a", engine="0"):
    labels = {"__name__": name, "model_name": model, "engine": engine}
    return SampledSeries(labels, [0.0, 300.0, 600.0][: len(values)], values)


TOKENS, COUNTED = "vllm:generation_tokens_total", "vllm:spec_decode_num_drafts_total"


def test_the_engines_of_a_model_are_summed_and_models_are_apart():
    plain = series(TOKENS, 1.0, 2.0, 2.0), series(TOKENS, 3.0, 3.0, 4.0, engine="1"), series("up", 1.0)
    drafting = series(TOKENS, 1.0, 2.0, 3.0, model="b"), series(COUNTED, 5.0, 6.0, 6.0, model="b")
    found = activity(*plain, *drafting)
    assert found.periods == {"a": [FoundPeriod(0.0, 600.0, ended=False)], "b": []}
    assert (found.begin, found.end, found.drafted) == (0.0, 600.0, {EngineName("b", "0"): 300.0})


def test_the_period_of_a_server_that_is_gone_ends_soon_after_its_last_reading():
    assert activity(series(TOKENS, 1.0, 2.0), now=9000.0).periods["a"] == [
        FoundPeriod(0.0, 600.0, ended=False)
    ]


def test_an_engine_with_a_name_that_no_engine_has_is_left_out():
    assert activity(series(TOKENS, 1.0, 2.0, model="x" * 9000)).periods == {}


def server(**labels):
    return HistoryTarget(ENGINES[0], "vllm:", labels, frozenset(), name=labels.get("instance", ""))


CHAT = Target("http://10.0.0.1:8000/metrics", "chat")
OF_CLUSTER = replace(CHAT, labels=(("cluster", "two"),))
OF_NAMESPACE = replace(CHAT, labels=(("namespace", "prod"),))
OF_POD = replace(CHAT, labels=(("namespace", "prod"), ("pod", "vllm-2"), ("team", "a")))
OF_NO_POD = replace(CHAT, labels=(("namespace", "prod"), ("pod", "a")))
PODS = [server(instance=f"10.0.1.{n}:8000", pod=f"vllm-{n}", namespace="prod") for n in range(3)]
CLUSTERS = [server(instance="10.0.0.1:8000", cluster=name) for name in ("one", "two")]
ELSEWHERE = server(instance="elsewhere:8000")


@pytest.mark.parametrize(
    ("of", "servers", "place"),
    [
        pytest.param(CHAT, [server(instance="10.0.0.2:8000"), server(instance="10.0.0.1:8000")], 1, id="address"),
        pytest.param(CHAT, [server(instance="other"), server(instance="chat")], 1, id="name"),
        pytest.param(OF_CLUSTER, CLUSTERS, 1, id="of two with the address the labels decide"),
        pytest.param(OF_POD, PODS, 2, id="without the address, labels"),
    ],
)  # fmt: skip
def test_the_server_of_a_target_is_found_by(of, servers, place):
    assert server_of(of, servers, is_only_target=False) is servers[place]


def test_one_server_alone_is_that_of_one_target_alone():
    assert server_of(CHAT, [ELSEWHERE], is_only_target=True) is ELSEWHERE


@pytest.mark.parametrize(
    ("of", "servers", "reason"),
    [
        (CHAT, [ELSEWHERE], "none of the 1 servers there is this target: elsewhere:8000"),
        (OF_NO_POD, PODS, r"none of the 3 servers .* choose its server by `match`"),
        (CHAT, [server(instance="10.0.0.1:8000"), server(instance="chat")], "2 servers there fit this target: 10.0.0.1:8000, chat; choose"),
        (OF_NAMESPACE, [server(instance=f"{n}", namespace="prod") for n in range(5)], "5 servers there fit this target: 0, 1, 2 and others; choose one"),
    ],
    ids=["another address", "labels that contradict", "address and name", "several that fit"],
)  # fmt: skip
def test_a_server_that_is_not_found_is_an_error_with_its_remedy(of, servers, reason):
    with pytest.raises(HistoryError, match=reason):
        server_of(of, servers, is_only_target=False)


def test_a_hostile_name_is_short_and_printable():
    with pytest.raises(HistoryError) as error:
        server_of(CHAT, [server(instance=f"\x1b{n}" * 4000) for n in range(3)], is_only_target=False)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("kind", ENGINES, ids=lambda kind: kind.name)
def test_a_server_of_each_engine_whose_drafts_are_counted_has_no_period_without(kind):
    target = HistoryTarget(kind, kind.prefixes[0], {}, frozenset())
    name = f"{kind.prefixes[0]}{next(kind.names[each][0] for each in DRAFTS if each in kind.names)}"
    assert re.fullmatch(target.selector(DRAFTS).names, name)
    tokens = f"{kind.prefixes[0]}{kind.names[Counter.GENERATION_TOKENS][0]}"
    found = activity(
        *(SampledSeries({"__name__": each}, [0.0, 300.0], [1.0, 2.0]) for each in (tokens, name))
    )
    assert found.periods == {"": []}
    assert found.drafted == {EngineName("", "0"): 300.0}


@pytest.mark.parametrize("value", [float("nan"), -1.0, 2.0**53])
def test_a_reading_that_no_counter_can_have_is_left_out(value):
    assert activity(series(TOKENS, 1.0, value, 2.0)).periods["a"] == [FoundPeriod(0.0, 600.0, ended=False)]
    assert activity(series(TOKENS, 1.0, value)).periods["a"] == []


# Groups


ROLLOUT = {"job": "vllm", "namespace": "prod"}
FIRST = {**ROLLOUT, "pod": "vllm-6c9f8d7b5-x2x9w", "instance": "10.0.0.1:8000"}
SECOND = {**ROLLOUT, "pod": "vllm-7d5b9c6f4-k8s2p", "instance": "10.0.0.2:8000"}


class Counted(StoredHistory):
    """A history with the counters of vLLM's steps, scraped every 30 s."""

    def add(self, begin, end, *, tokens=1.0, counted=True, kept=None, **labels):
        """Add a process from a second to another: tokens a step, and from ``kept`` on the counters of drafts."""
        steps = 6000
        for time in range(begin, end + 1, 30):
            drafted = round(steps * (tokens - 1))
            rows = {
                "generation_tokens_total": steps + drafted + steps // 100,
                "time_to_first_token_seconds_count": steps // 100,
                "inter_token_latency_seconds_count": steps,
                "inter_token_latency_seconds_sum": steps * 0.02,
                "num_requests_running": 4,
            }
            if counted and tokens > 1 and time >= (kept or begin):
                rows |= {
                    "spec_decode_num_drafts_total": steps,
                    "spec_decode_num_draft_tokens_total": steps * 3,
                    "spec_decode_num_accepted_tokens_total": drafted,
                }
            for name, value in rows.items():
                key = {"__name__": f"vllm:{name}", "model_name": "m", "engine": "0", **labels}
                self.series.setdefault(tuple(sorted(key.items())), []).append((START + time, value))
            steps += 6000
        self.now = max(self.now, START + end)
        return self


@pytest.mark.parametrize(
    ("stored", "instance"),
    [
        pytest.param(Counted().add(0, 3600, **FIRST, pod_template_hash="6c9f8d7b5").add(3600, 7200, tokens=1.7, **SECOND, pod_template_hash="7d5b9c6f4"), "10.0.0.1:8000", id="the pod that it replaces in a rollout"),
        pytest.param(Counted().add(0, 3600, **{**FIRST, "pod": "vllm-0"}).add(3700, 7200, tokens=1.7, **{**SECOND, "pod": "vllm-0"}), "10.0.0.1:8000", id="the earlier address of a pod of a stateful set"),
        pytest.param(Counted().add(0, 1200, **SECOND).add(1800, 2400, **FIRST).add(2700, 7200, tokens=1.7, **SECOND), "10.0.0.2:8000", id="its own time rather than a newer one of its group"),
    ],
)  # fmt: skip
async def test_the_baseline_of_a_pod_is(stored, instance):
    found = await found_baselines(stored, "10.0.0.2:8000")
    assert found["m"].server.labels["instance"] == instance


async def test_a_restart_that_begins_with_drafts_leaves_the_time_before_it():
    stored = Counted().add(0, 3600, **SECOND).add(3660, 7200, tokens=1.7, **SECOND)
    found = await found_baselines(stored, "10.0.0.2:8000")
    assert found["m"].server.labels["instance"] == "10.0.0.2:8000"
    result = await history_of(stored, begin=START, end=stored.now)
    assert result.engines[0].baseline.seconds == pytest.approx(3600, abs=120)


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        pytest.param(Counted().add(0, 7200, **FIRST).add(0, 7200, tokens=1.7, **SECOND), "no period", id="side by side"),
        pytest.param(Counted().add(0, 3600, job="vllm", instance="10.0.0.1:8000").add(3600, 7200, tokens=1.7, job="vllm", instance="10.0.0.2:8000"), "no period", id="another host of one job"),
        pytest.param(Counted().add(0, 3600, **{**FIRST, "pod": "chat-6c9f8d7b5-x2x9w"}).add(3600, 7200, tokens=1.7, **SECOND), "no period", id="another deployment of one job"),
        pytest.param(Counted().add(0, 3600, **FIRST, gpu="L40S").add(3600, 7200, tokens=1.7, **SECOND, gpu="H100"), "no period", id="other hardware, by a label"),
        pytest.param(Counted().add(0, 7200, tokens=1.7, counted=False, **SECOND), r"add `vllm:spec_decode_\.\*` to the allow-list", id="drafts that are not kept"),
        pytest.param(Counted().add(0, 7200, tokens=1.7, kept=3600, **SECOND), "no period", id="drafts that are kept since an hour"),
        pytest.param(Counted().add(0, 7200, tokens=1.01, kept=3600, **SECOND), "no period", id="few of them accepted"),
        pytest.param(Counted().add(0, 7200, tokens=32.0, counted=False, **SECOND), "add `vllm:spec", id="a diffusion model"),
    ],
)  # fmt: skip
async def test_no_baseline_are(stored, reason):
    with pytest.raises(HistoryError, match=reason):
        await found_baselines(stored, "10.0.0.2:8000")


async def test_an_engine_whose_drafts_are_kept_since_an_hour_does_not_learn_a_baseline_either():
    stored = Counted().add(0, 7200, tokens=1.01, kept=3600, **SECOND)
    (engine,) = (await history_of(stored, begin=START, end=stored.now)).engines
    assert engine.slots[-1].drafts
    assert engine.baseline is None
