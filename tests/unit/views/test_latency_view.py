"""Latencies beside those of a baseline: documents, ratios as text, and the reasons against them."""

from dataclasses import replace
from math import inf

import pytest

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.costs.baseline import BaselineSummary
from spec_decode_exporter.figures.quantile import Edges, QuantileRatio
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.views.latency_view import latency_comparison_view, ratio_text

TOKEN = Latency.TIME_PER_OUTPUT_TOKEN
BASELINE = BaselineSummary(
    0.1,
    None,
    prompt_tokens=500.0,
    running_requests=20.0,
    requests_per_second=5.0,
    histograms={TOKEN: Buckets((0.1, 1.0, inf), (0, 400, 400))},
    seconds=3 * 3600.0,
    end=1_794_481_200.0,
)


def view(busy, counts=(200, 400, 400), **changed):
    """Compare the busy engine, with these counts of latencies, with a changed baseline."""
    known = replace(busy.evaluation.known, latency_baseline=replace(BASELINE, **changed))
    windows = [
        replace(its.window, total=its.total._replace(prompt_tokens=500 * its.total.first_tokens))
        for its in busy.evaluation.windows
    ]
    return latency_comparison_view(Evaluation(windows, known, {TOKEN: Buckets((0.1, 1.0, inf), counts)}))


def test_each_quantile_has_a_ratio_with_bounds_or_the_reason_why_not(busy):
    found = view(busy, (200, 300, 300))
    assert (found.baseline, found.reason, found.text) == (BASELINE.name, None, "")
    assert found.latencies.keys() == {TOKEN}
    half, most, nearly_all = found.latencies[TOKEN].values()
    assert (half.quantiles, half.text) == (("< 100 ms", "0.1 to 1 s"), "at most 1")
    assert (half.baseline_seconds, half.lower, half.upper) == (pytest.approx(0.55), 0.0, pytest.approx(1.0))
    assert half.ratio == pytest.approx(0.075 / 0.55)
    assert (most.ratio, most.text) == (pytest.approx((0.1 + 0.9 * 85 / 100) / 0.955), "0.1 to 10")
    assert (nearly_all.ratio, nearly_all.upper, nearly_all.text) == (None, None, "needs 381 requests")
    assert nearly_all.baseline_seconds == pytest.approx(0.991)


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((0.55, 0.7), "0.62 (0.55 to 0.7)"),
        ((0.25, 1.0), "0.25 to 1"),
        ((0.0, 0.8), "at most 0.8"),
        ((1.25, inf), "at least 1.25"),
    ],
)
def test_a_ratio_has_no_more_digits_than_the_buckets_allow(bounds, text):
    assert ratio_text(QuantileRatio(0.62, Edges(*bounds))) == text


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"running_requests": 4.0, "requests_per_second": 1.0}, "load"),
        ({"context_tokens": 3000.0}, "contexts"),
        ({"prompt_tokens": 50.0}, "prompts"),
    ],
)
def test_a_baseline_of_other_traffic_has_no_ratio_and_says_which_traffic(busy, changed, reason):
    found = view(busy, **changed)
    assert found.text == f"Not comparable with the {reason} of that time."
    assert found.latencies == {}
