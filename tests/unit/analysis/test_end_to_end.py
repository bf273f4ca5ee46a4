"""Speed-up of whole requests, and the limit that it sets for the verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.end_to_end import EndToEnd, EndToEndBasis, capped, end_to_end
from spec_decode_exporter.analysis.request_baseline import RequestBaseline
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.config.policy import SpeedupPolicy
from spec_decode_exporter.figures.estimate import Estimate

BASELINE = RequestBaseline(0.1, 0.8, None, 3600.0, 1_790_000_000.0, "a test", 500.0, 8.0)
DECODING = Estimate(2.0, 1.8, 2.2, 0.1, 12)
THRESHOLDS = SpeedupPolicy()
MILLION = 10**6
ASCENDING = (Verdict.POOR, Verdict.MARGINAL, Verdict.HEALTHY, Verdict.OPTIMAL)


@pytest.fixture(scope="module", name="served")
def served_fixture(make_window):
    def served(first_token=0.2, decoding=0.6, *, requests=2, changing=0.0, running=8.0, prompt=500, **more):
        """Window of 300 s; times of one request in seconds, which change from second to second."""
        rows = []
        for second in range(300):
            times = 1 + changing * (-1) ** (second // 7)
            rows.append(
                {
                    "drafts": 20,
                    "generation_tokens": 40,
                    "first_tokens": requests,
                    "prompt_tokens": prompt * requests,
                    "first_token_nanoseconds": round(first_token * times * requests * 1000) * MILLION,
                    "decode_nanoseconds": round(decoding * requests * 1000) * MILLION,
                    "gauges": (running, 0.0, 0.0),
                }
            )
        names = rows[0].keys() - {"gauges"}
        sums = {name: sum(row[name] for row in rows) for name in names}
        return make_window(
            **{**sums, **more}, length=300.0, seconds=300.0, gauges=(running, 0.0, 0.0), increments=rows
        )

    return served


def test_without_a_baseline_the_shares_weigh_the_speed_up(served):
    found = end_to_end(served(), 2.0, DECODING)
    assert (found.value, found.basis) == (pytest.approx(0.25 + 0.75 * 2), EndToEndBasis.SAME_FIRST_TOKEN)
    assert (found.bounds.lower, found.bounds.upper) == pytest.approx((0.25 + 0.75 * 1.8, 0.25 + 0.75 * 2.2))


def test_with_a_baseline_its_time_to_first_token_replaces_the_present_one(served):
    found = end_to_end(served(), 2.0, DECODING, BASELINE)
    assert (found.value, found.basis) == (pytest.approx((0.1 + 2 * 0.6) / 0.8), EndToEndBasis.BASELINE)
    assert found.bounds.lower == pytest.approx((0.09 + 1.8 * 0.6) / 0.8)
    assert found.bounds.upper == pytest.approx((0.11 + 2.2 * 0.6) / 0.8)


def test_a_lost_prefix_cache_makes_requests_slower_though_decoding_is_faster(served):
    """The case of the study: time to first token 51 to 537 ms, decoding reported as 1.87 times as fast."""
    baseline = replace(BASELINE, first_token_seconds=0.051)
    found = end_to_end(served(0.537, 0.2), 1.87, Estimate(1.87, 1.82, 1.91, 0.02, 12), baseline)
    assert found.is_slower
    assert capped(Verdict.HEALTHY, found, THRESHOLDS) is Verdict.POOR


@pytest.mark.parametrize(
    ("change", "basis"),
    [
        ({}, EndToEndBasis.BASELINE),
        ({"prompt": 625}, EndToEndBasis.BASELINE),
        ({"prompt": 626}, EndToEndBasis.SAME_FIRST_TOKEN),
        ({"running": 4.0}, EndToEndBasis.BASELINE),
        ({"running": 16.1}, EndToEndBasis.SAME_FIRST_TOKEN),
        ({"prompt_tokens": None}, EndToEndBasis.BASELINE),
    ],
    ids=str,
)
def test_a_baseline_with_other_prompts_or_another_load_is_ignored(served, change, basis):
    assert end_to_end(served(**change), 2.0, DECODING, BASELINE).basis is basis


@pytest.mark.parametrize(
    "change",
    [{"first_tokens": 0}, {"first_token_nanoseconds": None}, {"decode_nanoseconds": None}],
    ids=str,
)
def test_without_the_time_of_requests_it_is_unknown(served, change):
    assert end_to_end(served(**change), 2.0, DECODING, BASELINE) is None


def test_without_the_speed_up_of_decoding_it_is_unknown(served):
    assert end_to_end(served(), None, None) is None


def test_without_bounds_of_decoding_it_has_none(served):
    found = end_to_end(served(), 2.0, None)
    assert found.value == pytest.approx(1.75)
    assert found.bounds is None
    assert not found.is_slower


def test_varying_times_to_first_token_widen_the_bounds(served):
    steady, varying = (end_to_end(served(changing=each), 2.0, DECODING).bounds for each in (0.0, 0.9))
    assert varying.upper - varying.lower > steady.upper - steady.lower


SECONDS = st.integers(10, 10_000).map(lambda milliseconds: milliseconds / 1000)


@given(SECONDS, SECONDS, st.floats(0.3, 5), st.floats(0.01, 0.5))
def test_the_gain_without_a_baseline_is_between_none_and_that_of_decoding(
    served, first_token, decoding, gain, error
):
    bounds = Estimate(gain, gain - error / 2, gain + error, error, 12)
    found = end_to_end(served(first_token, decoding), gain, bounds)
    assert min(1, gain) <= found.value + 1e-9
    assert found.value <= max(1, gain) + 1e-9
    assert found.bounds.lower <= found.value <= found.bounds.upper


@given(SECONDS, SECONDS, st.floats(0.3, 5), SECONDS)
def test_it_is_the_ratio_of_the_times_of_a_request(served, first_token, decoding, gain, without):
    window = served(first_token, decoding)
    baseline = replace(BASELINE, first_token_seconds=without)
    found = end_to_end(window, gain, None, baseline)
    assert found.value == pytest.approx((without + gain * decoding) / (first_token + decoding))


class TestCap:
    @staticmethod
    def request(lower, upper, basis=EndToEndBasis.SAME_FIRST_TOKEN):
        value = (lower + upper) / 2
        return EndToEnd(value, basis, Estimate(value, lower, upper, 0.1, 12))

    @pytest.mark.parametrize(
        ("lower", "highest"),
        [
            (0.9, Verdict.POOR),
            (0.999, Verdict.POOR),
            (1.0, Verdict.MARGINAL),
            (1.299, Verdict.MARGINAL),
            (1.3, Verdict.HEALTHY),
            (1.999, Verdict.HEALTHY),
            (2.0, Verdict.OPTIMAL),
        ],
    )
    def test_the_lower_bound_limits_the_verdict_by_the_same_thresholds(self, lower, highest):
        request = self.request(lower, lower + 0.5)
        assert capped(Verdict.OPTIMAL, request, THRESHOLDS) is highest

    @given(st.floats(0.2, 3), st.floats(0, 1), st.sampled_from(Verdict), st.sampled_from(EndToEndBasis))
    def test_it_never_raises_a_verdict_nor_says_harmful_or_insufficient(self, lower, width, word, basis):
        after = capped(word, self.request(lower, lower + width, basis), THRESHOLDS)
        assert after is word or after in ASCENDING
        if word in ASCENDING:
            assert ASCENDING.index(after) <= ASCENDING.index(word)

    @given(st.floats(0.2, 2), st.floats(0, 1))
    def test_what_is_not_faster_for_a_request_is_never_healthy(self, lower, width):
        request = self.request(lower, lower + width, EndToEndBasis.BASELINE)
        after = capped(Verdict.OPTIMAL, request, THRESHOLDS)
        assert lower >= 1.3 or after not in (Verdict.HEALTHY, Verdict.OPTIMAL)

    @pytest.mark.parametrize("word", [Verdict.HARMFUL, Verdict.INSUFFICIENT])
    def test_harmful_and_insufficient_stay(self, word):
        request = self.request(0.5, 0.7, EndToEndBasis.BASELINE)
        assert capped(word, request, THRESHOLDS) is word

    def test_without_bounds_nothing_changes(self):
        assert capped(Verdict.OPTIMAL, None, THRESHOLDS) is Verdict.OPTIMAL
        unbounded = EndToEnd(0.5, EndToEndBasis.BASELINE, None)
        assert capped(Verdict.OPTIMAL, unbounded, THRESHOLDS) is Verdict.OPTIMAL
