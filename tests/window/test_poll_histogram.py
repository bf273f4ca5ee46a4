"""Each poll's acceptance rate, weighted by its draft tokens."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.window.poll_histogram import PollHistogram


def observed(*polls):
    histogram = PollHistogram()
    for drafted, accepted in polls:
        histogram.observe(drafted, accepted)
    return histogram


def test_its_bounds_are_tenths_and_all_are_there_from_the_start():
    bounds = ["0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0", "+Inf"]
    assert PollHistogram().cumulative() == [(bound, 0) for bound in bounds]


def test_a_poll_counts_with_its_draft_tokens():
    buckets = dict(observed((100, 55), (10, 10)).cumulative())
    assert buckets["0.5"] == 0
    assert buckets["0.6"] == 100
    assert buckets["0.9"] == 100
    assert buckets["1.0"] == buckets["+Inf"] == 110


def test_a_rate_on_a_bound_belongs_to_it():
    assert dict(observed((10, 3)).cumulative())["0.3"] == 10


def test_nothing_accepted_is_in_the_first_bucket():
    assert dict(observed((10, 0)).cumulative())["0.1"] == 10


def test_a_torn_page_above_1_is_above_the_last_bound():
    buckets = dict(observed((10, 11)).cumulative())
    assert (buckets["1.0"], buckets["+Inf"]) == (0, 10)


def test_a_poll_without_drafts_has_no_weight_but_its_accepted_tokens_are_in_the_sum():
    histogram = observed((0, 3), (8, 1))
    assert dict(histogram.cumulative())["+Inf"] == 8
    assert histogram.sum == 4


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6))))
def test_buckets_are_those_of_counting_one_by_one(polls):
    histogram = observed(*polls)
    for tenth, (bound, count) in enumerate(histogram.cumulative()[:-1], 1):
        expected = sum(drafted for drafted, accepted in polls if 10 * accepted <= tenth * drafted)
        assert (Fraction(bound), count) == (Fraction(tenth, 10), expected)
    assert histogram.cumulative()[-1][1] == sum(drafted for drafted, _ in polls)
    assert histogram.sum == sum(accepted for _, accepted in polls)
