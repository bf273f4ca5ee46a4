"""Experiment with simulated servers, from their pages to /metrics, compared with the ground truth."""

from collections import defaultdict

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spec_decode_exporter.simulator.scenario import Scenario
from tests.fakes.scenarios import speedup
from tests.fakes.simulated import Server
from tests.service.conftest import exporter

WINDOW = "2m"
BEFORE, STOOD = 150, 260
"""Seconds until the experiment is added, and after which an arm that is faster was so for a whole window."""
ADVISED = 900
"""Seconds within which the advice to switch to it has stood for three minutes: bounds may interrupt it."""
COMPARED = 10  # seconds after which arms are compared, and engines are evaluated with the results
EXPERIMENT = """\
experiments:
  - name: drafter
    arms:
      off: {match: {spec: off}}
      eagle: {match: {spec: eagle}}
      ngram: {match: {spec: ngram}}
    baseline: off
"""
SEEDS = {"off": 1, "eagle": 2, "ngram": 3}
SERVERS = {
    name: Scenario.model_validate(
        {"speculation": speculation, "load": {"concurrency": 8}, "outputs": {"mean": 120}}
    )
    for name, speculation in {
        "off": {"tokens": 0},
        "eagle": {"method": "draft_model", "tokens": 4},
        "ngram": {"method": "ngram", "tokens": 4, "coverage": 0.2},
    }.items()
}
CONFIG = """\
windows: [30s, 2m]
poll: {interval: 2s}
targets:
  - {url: 'http://off:8000/metrics', name: off, labels: {spec: off}}
  - {url: 'http://eagle:8000/metrics', name: eagle, labels: {spec: eagle}, speculative: {method: eagle3}}
  - {url: 'http://ngram:8000/metrics', name: ngram, labels: {spec: ngram}, speculative: {method: ngram}}
"""


async def metrics(told):
    """Return the samples by metric: labels and value of each."""
    found = defaultdict(list)
    for family in text_string_to_metric_families(await told.get("metrics")):
        for sample in family.samples:
            found[sample.name].append((sample.labels, sample.value))
    return found


def of(samples, **labels):
    """Return the values of the samples that have these labels."""
    return [value for own, value in samples if labels.items() <= own.items()]


async def test_an_experiment_is_added_compared_and_removed_while_the_servers_run(tmp_path, clock, network):
    for name, scenario in SERVERS.items():
        network.servers[f"{name}:8000"] = Server(clock, scenario, seed=SEEDS[name])
    async with exporter(tmp_path, clock, CONFIG) as told:
        await clock.advance(BEFORE)
        assert not [name for name in await metrics(told) if name.startswith("spec_decode_experiment_")]
        await told.reload(CONFIG + EXPERIMENT)
        # The windows were there all the time.
        found = await metrics(told)
        assert of(found["spec_decode_experiment_speedup_ratio"], arm="eagle", window=WINDOW)
        await clock.advance(STOOD)
        found, name = await metrics(told), "spec_decode_experiment_speedup_ratio"
        for arm in ("eagle", "ngram"):
            true = speedup(SERVERS[arm], BEFORE + STOOD - 120, BEFORE + STOOD, SEEDS[arm])
            for basis in ("time_per_output_token", "throughput_per_request", "end_to_end"):
                labels = {"arm": arm, "window": WINDOW, "basis": basis, "baseline": "off"}
                (value,) = of(found[name], **labels)
                (lower,), (upper,) = (
                    of(found[f"{name}_lower"], **labels),
                    of(found[f"{name}_upper"], **labels),
                )
                assert value == pytest.approx(true, rel=0.1)
                assert lower < value < upper < 1.5 * lower
            (length,) = of(found["spec_decode_experiment_acceptance_length_tokens"], arm=arm, window=WINDOW)
            assert [length] == of(found["spec_decode_acceptance_length_tokens"], target=arm, window=WINDOW)
        ratios = of(found["spec_decode_experiment_traffic_ratio"], window=WINDOW)
        assert ratios
        assert all(0.8 < ratio < 1.25 for ratio in ratios)
        assert of(found["spec_decode_experiment_engines"], window=WINDOW) == [1.0] * 3
        winners = [own for own, value in found["spec_decode_experiment_winner"] if value]
        assert {own["arm"] for own in winners if own["basis"] == "time_per_output_token"} == {"eagle"}
        await advice_follows(told)
        await told.reload(CONFIG)
        await clock.advance(COMPARED)
        found = await metrics(told)
        assert not [name for name in found if name.startswith("spec_decode_experiment_")]
        assert of(found["spec_decode_draft_cost_ratio"], target="eagle", source="experiment") == []


async def advice_follows(told):
    """The baseline yields the cost, and a faster arm the better method."""
    for _ in range(STOOD, ADVISED, 60):
        found = await metrics(told)
        if of(found["spec_decode_recommendation"], target="ngram", action="switch_method") == [1.0]:
            break
        await told.clock.advance(60)
    assert of(found["spec_decode_recommendation"], target="ngram", action="switch_method") == [1.0]
    assert of(found["spec_decode_recommendation"], target="eagle", action="switch_method") == [0.0]
    (cost,) = of(found["spec_decode_draft_cost_ratio"], target="eagle", source="experiment")
    # The draft model's own share and its start are split by the default of the method.
    usual = 1 + 0.10 / 0.07 / 4
    assert cost * usual == pytest.approx(SERVERS["eagle"].draft_cost_ratio(8), rel=0.25)
    # The time per token is that of the arm without drafts, or shorter: both are in one of two wide buckets.
    metric = "spec_decode_time_per_output_token_quantile_baseline_ratio"
    (ratio,) = of(found[metric], target="eagle", quantile="0.5")
    assert 0.3 < ratio < 1
    assert of(found[metric], target="off") == []
