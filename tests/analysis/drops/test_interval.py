from __future__ import annotations

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.drops.baseline import Baseline
from spec_decode_exporter.analysis.drops.interval import Interval, IntervalSplitter

increments = st.lists(
    st.builds(Interval, st.floats(0.1, 60), st.integers(0, 1000), st.integers(0, 3000), st.integers(0, 9000)),
    max_size=60,
)


def test_a_interval_is_complete_when_it_is_long_enough_and_silence_does_not_count():
    intervals = IntervalSplitter()
    assert intervals.add(Interval(3.0, 10, 12, 20), 5.0) is None
    assert intervals.add(Interval(100.0), 5.0) is None
    assert intervals.add(Interval(2.0, 5, 6, 9), 5.0) == Interval(5.0, 15, 18, 29, end=105.0)
    assert (intervals.elapsed, intervals.drafted) == (105.0, 5.0)


def test_intervals_are_held_back_until_they_are_old_enough():
    intervals = IntervalSplitter()
    for _ in range(4):
        intervals.add(Interval(5.0, 10, 12), 5.0)
    assert [one.end for one in intervals.older_than(10.0)] == [5.0, 10.0]
    assert [one.end for one in intervals.older_than(10.0)] == []
    intervals.add(Interval(60.0), 5.0)
    assert [one.end for one in intervals.older_than(10.0)] == [15.0, 20.0]


def test_what_is_recent_is_what_is_held_back_and_what_is_under_way():
    intervals = IntervalSplitter()
    assert intervals.newer_than(30.0) is None
    intervals.add(Interval(5.0, 10, 12), 5.0)
    intervals.add(Interval(3.0, 20, 10), 5.0)
    assert intervals.newer_than(30.0) == Interval(8.0, 30, 22)
    intervals.add(Interval(28.0), 5.0)
    assert intervals.newer_than(30.0) == Interval(3.0, 20, 10)
    intervals.add(Interval(2.0), 5.0)
    assert intervals.newer_than(30.0) is None


@given(increments)
def test_no_draft_is_lost_or_counted_twice(given_increments):
    intervals = IntervalSplitter()
    passed = Interval()
    for one in given_increments:
        intervals.add(one, 5.0)
        for old in intervals.older_than(20.0):
            passed.add(old)
    for rest in (*intervals.held, intervals.filling):
        passed.add(rest)
    assert passed.drafts == sum(one.drafts for one in given_increments)
    assert passed.accepted == sum(one.accepted for one in given_increments if one.drafts)
    assert passed.seconds == pytest.approx(intervals.drafted)
    assert len(intervals.held) <= 5


def test_a_baseline_by_hand():
    baseline = Baseline()
    baseline.add(Interval(5.0, 100, 100, 300), memory=5.0)
    baseline.add(Interval(5.0, 50, 110, 400), memory=5.0)
    kept = exp(-1)
    assert baseline.mean == pytest.approx((kept * 100 + 110) / (kept * 100 + 50))
    assert baseline.length == baseline.mean + 1
    assert baseline.drafts_per_second == pytest.approx((kept * 100 + 50) / (kept * 5 + 5))
    assert baseline.effective_drafts == pytest.approx((kept * 100 + 50) ** 2 / (kept**2 * 100 + 50))
    squares = (kept * 300 + 400) / (kept * 100 + 50)
    assert baseline.independent_variance == pytest.approx(squares - baseline.mean**2)


@given(increments)
def test_without_forgetting_a_baseline_is_the_sums(given_increments):
    baseline = Baseline()
    drafted = [one for one in given_increments if one.drafts]
    for one in drafted:
        baseline.add(one, memory=1e18)
    if drafted:
        assert baseline.mean == pytest.approx(
            sum(one.accepted for one in drafted) / sum(one.drafts for one in drafted)
        )
        assert baseline.effective_drafts == pytest.approx(sum(one.drafts for one in drafted))
