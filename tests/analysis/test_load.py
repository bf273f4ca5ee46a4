"""What the server was busy with."""

from __future__ import annotations

import pytest

from exporter.analysis.load import mean, per_second, prefix_cache_hit_ratio
from exporter.scrape.engines import Gauge


def test_the_mean_of_a_gauge_is_the_window_s(make_window):
    window = make_window(gauges=(3.5, None, 0.25))
    assert mean(window, Gauge.RUNNING_REQUESTS) == 3.5
    assert mean(window, Gauge.WAITING_REQUESTS) is None
    assert mean(window, Gauge.KV_CACHE_USAGE) == 0.25


def test_a_rate_is_by_the_time_covered_and_not_by_the_window_s_name(make_window):
    assert per_second(make_window(seconds=12.0), 60) == 5.0
    assert per_second(make_window(seconds=12.0), 0) == 0.0


def test_a_rate_over_no_time_or_of_nothing_known_has_no_value(make_window):
    assert per_second(make_window(seconds=0.0), 60) is None
    assert per_second(make_window(), None) is None


@pytest.mark.parametrize(("queries", "hits", "expected"), [(200, 50, 0.25), (0, 0, None), (None, None, None)])
def test_prefix_cache_hits_are_a_share_of_the_tokens_looked_up(make_window, queries, hits, expected):
    window = make_window(prefix_cache_queries=queries, prefix_cache_hits=hits)
    assert prefix_cache_hit_ratio(window) == expected
