"""Evidence that is missing for a verdict."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.evaluated_window import since_change, unless_enough
from spec_decode_exporter.analysis.missing_evidence import Evidence, Need, missing
from spec_decode_exporter.analysis.speedup import SpeedupRange
from spec_decode_exporter.analysis.statistics.ratio_bounds import MIN_BOUND_REQUESTS
from spec_decode_exporter.analysis.verdict import MIN_VERDICT_REQUESTS
from spec_decode_exporter.analysis.window_bounds import NO_BOUNDS
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.page.engine_table import Counter


@pytest.fixture(name="needs")
def needs_fixture(evaluation_window):
    def needs(seconds, *, requests=None, length=None, speedup=None, known=True, drafts=100, polls=None):
        window = evaluation_window(length=300.0, seconds=seconds, drafts=drafts)
        counters = list(window.counters)
        place = list(Counter).index(Counter.FIRST_TOKENS)
        if requests is not None:
            counters[place] = requests * 4  # four run at a time
        if not known:
            counters[place] = None
        window = replace(window, counters=tuple(counters), polls=polls or window.polls)
        evaluated = unless_enough(since_change((window,), None), NO_BOUNDS)
        return missing(evaluated, length, speedup, Policy())

    return needs


def test_a_window_with_few_drafts_needs_drafts(needs):
    assert needs(34, drafts=2) == (Need(Evidence.DRAFTS, 100, 68),)


def test_a_window_of_two_polls_needs_polls(needs):
    assert needs(40, polls=2) == (Need(Evidence.POLLS, 3, 2),)


def test_few_requests_need_more_of_them_or_half_of_the_longest_window(needs):
    expected = (Need(Evidence.REQUESTS, MIN_BOUND_REQUESTS, 3.0), Need(Evidence.SECONDS, 150.0, 34))
    assert needs(34, requests=3) == expected


def test_many_requests_need_the_time_that_bounds_need(needs):
    assert needs(20, requests=30) == (Need(Evidence.SECONDS, 25.5, 20),)


def test_unknown_requests_need_half_of_the_longest_window(needs):
    assert needs(84, known=False) == (Need(Evidence.SECONDS, 150.0, 84),)


def test_a_whole_window_needs_more_than_one_request(needs):
    assert needs(300, requests=1) == (Need(Evidence.REQUESTS, MIN_VERDICT_REQUESTS, 1.0),)


WIDE = SpeedupRange(Estimate(1.59, 0.59, 3.76, 0.5), 1.54, 1.64)


def test_wide_bounds_need_narrower_ones(needs):
    (need,) = needs(300, length=Estimate(2.0, 1.2, 2.4, 0.3), speedup=WIDE)
    assert need == Need(Evidence.HALF_WIDTH, 0.25, pytest.approx(0.4))


def test_a_speedup_that_may_be_below_1_needs_a_higher_lower_bound(needs):
    (need,) = needs(300, length=Estimate(2.0, 1.8, 2.2, 0.1), speedup=WIDE)
    assert need == Need(Evidence.LOWEST_SPEEDUP, 1.0, 0.59)
