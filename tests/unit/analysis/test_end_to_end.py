"""Speed-up of whole requests, and the limit that it sets for the verdict."""

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.end_to_end import (
    EndToEnd,
    EndToEndBasis,
    end_to_end,
    first_token_error,
    is_prefix_cache_lost,
)
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.costs.baseline import BaselineSummary
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.window_figures import WindowFigures
from tests.fakes.windows import summed

BASELINE = BaselineSummary(0.1, 0.8, 500.0, 8.0)
DECODING = Estimate(2.0, 1.8, 2.2, 0.1, 12)
MILLION = 10**6
SAME, OF_BASELINE = EndToEndBasis
UNKNOWN_TIMES = {"first_tokens": 0}, {"first_token_nanoseconds": None}, {"decode_nanoseconds": None}


def served(first_token=0.2, decoding=0.6, *, requests=2, changing=0.0, running=8.0, prompt=500, **more):
    """Figures of 300 s; times of one request in seconds, which change from second to second."""
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
    more = {"gauges": (running,)} | more
    return WindowFigures(summed(rows, length=300.0, seconds=300.0, **more))


def test_with_a_baseline_the_time_of_its_requests_is_compared():
    """The first token takes 0.1 s instead of 0.2, give or take a tenth."""
    found = end_to_end(served(), 2.0, DECODING, BASELINE)
    assert (found.value, found.basis) == (pytest.approx((0.1 + 1.2) / 0.8), OF_BASELINE)
    assert found.bounds[1:3] == pytest.approx(((0.09 + 1.8 * 0.6) / 0.8, (0.11 + 2.2 * 0.6) / 0.8))
    same = end_to_end(served(), 2.0, DECODING, None)
    assert (same.value, same.bounds, same.basis) == (pytest.approx((0.2 + 1.2) / 0.8), None, SAME)


@pytest.mark.parametrize(
    ("change", "basis"),
    [
        ({"prompt": 625}, OF_BASELINE),
        ({"prompt": 626}, SAME),
        ({"running": 4.0}, OF_BASELINE),
        ({"running": 16.1}, SAME),
        ({"prompt_tokens": None}, OF_BASELINE),
    ],
    ids=str,
)
def test_a_baseline_with_other_prompts_or_another_load_is_ignored(change, basis):
    assert end_to_end(served(**change), 2.0, DECODING, BASELINE).basis is basis


@pytest.mark.parametrize("change", UNKNOWN_TIMES, ids=str)
def test_without_the_time_of_requests_it_is_unknown(change):
    assert end_to_end(served(**change), 2.0, DECODING, BASELINE) is None


def test_without_bounds_of_decoding_it_has_none_and_limits_nothing():
    found = end_to_end(served(), 2.0, None, BASELINE)
    assert (found.value, found.bounds, found.is_slower) == (pytest.approx(1.3 / 0.8), None, False)
    assert EndToEnd(0.5, OF_BASELINE, None).capped(Verdict.OPTIMAL) is Verdict.OPTIMAL


@pytest.mark.parametrize(("requests", "error"), [(1e6, 0.1), (1600.0, 0.1), (400.0, 0.2)])
def test_the_fewer_requests_a_baseline_has_the_less_certain_is_its_first_token(requests, error):
    assert first_token_error(requests) == pytest.approx(error)


class TestLostPrefixCache:
    LOST = {"prefix_cache_queries": 1_000_000, "prefix_cache_hits": 0}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("change", "baseline", "is_lost"),
        [
            ({}, None, True),
            ({}, BASELINE, True),
            ({}, replace(BASELINE, prefix_hit_ratio=0.009), False),
            ({"prefix_cache_hits": 1}, None, False),
            ({"prefix_cache_queries": 9999}, None, False),
            ({"prefix_cache_queries": None, "prefix_cache_hits": None}, None, False),
        ],
        ids=str,
    )
    def test_it_is_lost_if_many_look_ups_found_nothing(self, change, baseline, is_lost):
        assert is_prefix_cache_lost(served(**self.LOST | change), baseline) is is_lost


class TestCap:
    SLOWER = Estimate(0.6, 0.5, 0.7, 0.1, 12)

    @pytest.mark.parametrize(
        "same",
        [EndToEnd(0.6, SAME, SLOWER), EndToEnd(1.0, OF_BASELINE, Estimate(1.0, 0.9, 1.1, 0.1, 12))],
    )
    def test_other_requests_do_not_limit_the_verdict(self, same):
        assert same.capped(Verdict.OPTIMAL) is Verdict.OPTIMAL

    @pytest.mark.parametrize(
        ("word", "expected"),
        [
            (Verdict.UNCLEAR, Verdict.POOR),
            (Verdict.OPTIMAL, Verdict.POOR),
            (Verdict.HARMFUL, Verdict.HARMFUL),
            (Verdict.INSUFFICIENT, Verdict.INSUFFICIENT),
        ],
    )
    def test_requests_that_are_slower_than_their_baseline_are_at_most_poor(self, word, expected):
        assert EndToEnd(0.6, OF_BASELINE, self.SLOWER).capped(word) is expected
