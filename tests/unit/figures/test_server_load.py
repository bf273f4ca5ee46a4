"""Server load."""

from __future__ import annotations

import pytest

from spec_decode_exporter.figures.server_load import (
    drafting_requests,
    mean,
    per_second,
    prefix_cache_hit_ratio,
)
from spec_decode_exporter.scrape.page.engine_table import Gauge


def test_the_mean_of_a_gauge_is_the_window_s(make_window):
    window = make_window(gauges=(3.5, None, 0.25))
    assert mean(window, Gauge.RUNNING_REQUESTS) == 3.5
    assert mean(window, Gauge.WAITING_REQUESTS) is None
    assert mean(window, Gauge.KV_CACHE_USAGE) == 0.25


def test_a_rate_is_by_the_covered_time_and_not_by_the_window_s_length(make_window):
    assert per_second(make_window(seconds=12.0), 60) == 5.0
    assert per_second(make_window(seconds=12.0), 0) == 0.0


def test_a_rate_over_no_time_or_of_an_unknown_count_has_no_value(make_window):
    assert per_second(make_window(seconds=0.0), 60) is None
    assert per_second(make_window(), None) is None


@pytest.mark.parametrize(("queries", "hits", "expected"), [(200, 50, 0.25), (0, 0, None), (None, None, None)])
def test_prefix_cache_hits_are_a_share_of_the_tokens_looked_up(make_window, queries, hits, expected):
    window = make_window(prefix_cache_queries=queries, prefix_cache_hits=hits)
    assert prefix_cache_hit_ratio(window) == expected


class TestTheLoadOfDrafts:
    def polls(self, *polls):
        """Return increments, each of draft tokens and running requests."""
        return [{"draft_tokens": drafted, "gauges": (running, 0.0, 0.0)} for drafted, running in polls]

    def test_is_the_mean_over_draft_tokens_and_not_over_time(self, make_window):
        polls = self.polls((0, 0.0), (0, 0.0), (100, 4.0), (300, 60.0))
        window = make_window(increments=polls, gauges=(16.0, 0.0, 0.0))
        assert drafting_requests(window) == (100 * 4 + 300 * 60) / 400

    def test_is_the_mean_over_the_polls_without_drafts(self, make_window):
        window = make_window(increments=self.polls((0, 2.0), (0, 4.0)), gauges=(3.0, 0.0, 0.0))
        assert drafting_requests(window) == 3.0

    def test_is_unknown_without_the_gauge(self, make_window):
        assert drafting_requests(make_window(increments=self.polls((100, 0.0)))) is None
