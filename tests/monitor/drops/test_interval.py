from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.monitor.drops.interval import Interval, IntervalSplitter

increments = st.lists(
    st.builds(Interval, st.floats(0.1, 60), st.integers(0, 1000), st.integers(0, 3000), st.integers(0, 9000)),
    max_size=60,
)


def test_an_interval_is_complete_after_its_length_in_seconds_with_drafts():
    intervals = IntervalSplitter()
    assert intervals.add(Interval(3.0, 10, 12, 20), 5.0) is None
    assert intervals.add(Interval(100.0), 5.0) is None
    assert intervals.add(Interval(2.0, 5, 6, 9), 5.0) == Interval(5.0, 15, 18, 29, end=105.0)
    assert (intervals.elapsed, intervals.drafted) == (105.0, 5.0)


def test_intervals_are_held_back_until_they_are_old_enough():
    intervals = IntervalSplitter()
    for _ in range(4):
        intervals.add(Interval(5.0, 10, 12), 5.0)
    assert [interval.end for interval in intervals.older_than(10.0)] == [5.0, 10.0]
    assert [interval.end for interval in intervals.older_than(10.0)] == []
    intervals.add(Interval(60.0), 5.0)
    assert [interval.end for interval in intervals.older_than(10.0)] == [15.0, 20.0]


def test_recent_drafts_are_those_of_held_and_incomplete_intervals():
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
def test_every_draft_counts_exactly_once(given_increments):
    intervals = IntervalSplitter()
    passed = Interval()
    for interval in given_increments:
        intervals.add(interval, 5.0)
        for old in intervals.older_than(20.0):
            passed.add(old)
    for rest in (*intervals.held, intervals.filling):
        passed.add(rest)
    assert passed.drafts == sum(interval.drafts for interval in given_increments)
    assert passed.accepted == sum(interval.accepted for interval in given_increments if interval.drafts)
    assert passed.seconds == pytest.approx(intervals.drafted)
    assert len(intervals.held) <= 5
