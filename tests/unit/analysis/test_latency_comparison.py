"""Latency quantiles beside those of a baseline: which baselines are comparable, and which ratios are known."""

from dataclasses import replace
from math import inf

import pytest

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.latency_comparison import Incomparable, compared_latencies
from spec_decode_exporter.costs.baseline import BaselineSummary
from spec_decode_exporter.figures.quantile import LATENCY_QUANTILES, QuantileRatio
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from tests.fakes.windows import summed

P50, P95, P99 = LATENCY_QUANTILES
TOKEN, FIRST = Latency.TIME_PER_OUTPUT_TOKEN, Latency.TIME_TO_FIRST_TOKEN
BOUNDS = 0.01, 0.02, 0.04, inf
BEFORE = Buckets(BOUNDS, (0, 100, 1000, 1000))
NOW = Buckets(BOUNDS, (0, 900, 1000, 1000))
BASELINE = BaselineSummary(
    0.1,
    None,
    prompt_tokens=500.0,
    running_requests=8.0,
    requests_per_second=2.0,
    context_tokens=600.0,
    histograms={TOKEN: BEFORE, FIRST: BEFORE},
)


def served(*, prompt=500, answer=200, requests=2, running=8.0):
    """Figures of 300 s, of requests of these lengths, a second."""
    row = {
        "generation_tokens": answer * requests,
        "first_tokens": requests,
        "prompt_tokens": prompt * requests,
        "gauges": (running, 0.0, 0.0),
    }
    return WindowFigures(summed([row] * 300, length=300.0, seconds=300.0, gauges=(running,)))


def test_each_quantile_has_its_ratio_to_that_of_the_baseline_with_bounds_by_the_buckets():
    found = compared_latencies({TOKEN: NOW, FIRST: NOW, Latency.QUEUE: NOW}, served(), BASELINE)
    assert found.reason is None
    assert found.latencies.keys() == {FIRST, TOKEN}
    half = found.latencies[TOKEN][P50]
    # Rank 500 of 900 within 10 to 20 ms, and rank 400 of 900 within 20 to 40 ms.
    assert half.value == pytest.approx((0.01 + 0.01 * 500 / 900) / (0.02 + 0.02 * 400 / 900))
    assert half.bounds == pytest.approx((0.25, 1.0))


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        pytest.param({}, None, id="the same"),
        pytest.param({"requests": 1}, None, id="half the arrivals, as many running"),
        pytest.param({"running": 3.0}, None, id="as many arrivals, of which fewer run: drafts do that"),
        pytest.param({"requests": 1, "running": 3.0}, Incomparable.LOAD, id="less load"),
        pytest.param({"requests": 3, "running": 20.0}, Incomparable.LOAD, id="more load"),
        pytest.param({"prompt": 650}, Incomparable.PROMPTS, id="longer prompts"),
        pytest.param({"prompt": 390}, Incomparable.PROMPTS, id="shorter prompts"),
        pytest.param({"answer": 600}, Incomparable.CONTEXTS, id="longer contexts by longer answers"),
    ],
)
def test_other_prompts_contexts_or_loads_are_refused(figures, reason):
    found = compared_latencies({TOKEN: NOW}, served(**figures), BASELINE)
    assert found.reason is reason
    assert bool(found.latencies) is (reason is None)


def test_unknown_figures_of_a_baseline_count_as_similar():
    unknown = replace(
        BASELINE, prompt_tokens=None, running_requests=None, requests_per_second=None, context_tokens=None
    )
    assert compared_latencies({TOKEN: NOW}, served(prompt=9000), unknown).reason is None


@pytest.mark.parametrize("unknown", ["running_requests", "requests_per_second"])
def test_without_one_of_the_loads_the_other_one_decides(unknown):
    baseline = replace(BASELINE, **{unknown: None})
    assert compared_latencies({TOKEN: NOW}, served(), baseline).reason is None
    more = served(requests=3, running=20.0)
    assert compared_latencies({TOKEN: NOW}, more, baseline).reason is Incomparable.LOAD


def test_only_latencies_of_which_each_request_is_one_observation_are_compared():
    known = Knowledge(latency_baseline=BASELINE)
    found = Evaluation([served().window], known, {TOKEN: NOW, FIRST: NOW, Latency.DECODE_STEP: NOW})
    assert found.latency_comparison.latencies.keys() == {FIRST, TOKEN}


@pytest.mark.parametrize(
    ("now", "quantile", "reason"),
    [
        (Buckets((0.01, 0.05, inf), (0, 1000, 1000)), P50, Incomparable.OTHER_BUCKETS),
        (Buckets(BOUNDS, (0, 300, 380, 380)), P99, Incomparable.FEW_REQUESTS),
        (Buckets(BOUNDS, (0, 300, 381, 381)), P99, None),
        (Buckets(BOUNDS, (0, 50, 72, 72)), P95, Incomparable.FEW_REQUESTS),
        (Buckets(BOUNDS, (0, 9000, 9999, 9999)), P99, None),
        (Buckets(BOUNDS, (0, 0, 0, 1000)), P50, Incomparable.WIDE_BUCKETS),
    ],
)
def test_a_quantile_without_a_ratio_has_the_reason(now, quantile, reason):
    found = compared_latencies({TOKEN: now}, served(), BASELINE).latencies[TOKEN][quantile]
    assert isinstance(found, QuantileRatio) if reason is None else found is reason


def test_a_baseline_of_few_requests_has_no_ratio():
    few = replace(BASELINE, histograms={TOKEN: Buckets(BOUNDS, (0, 50, 72, 72))})
    assert compared_latencies({TOKEN: NOW}, served(), few).latencies[TOKEN][P95] is Incomparable.FEW_REQUESTS


@pytest.mark.parametrize(
    "baseline", [None, replace(BASELINE, histograms={}), replace(BASELINE, histograms={FIRST: BEFORE})]
)
def test_without_histograms_of_both_there_is_no_comparison(baseline):
    assert compared_latencies({TOKEN: NOW}, served(), baseline) is None
