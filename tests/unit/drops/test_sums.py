"""Sums over units, and the intervals that time is split into."""

from math import exp

import pytest

from spec_decode_exporter.drops.sums import Intervals, Sums


def test_weighted_sums_of_a_worked_example():
    sums, kept = Sums(), exp(-1)
    sums.add(Sums(5.0, 100, 100, 300, drafted=50, end=5.0), kept)
    sums.add(Sums(5.0, 50, 110, 400, drafted=10, requests=2), kept)
    assert sums.length == pytest.approx(1 + (kept * 100 + 110) / (kept * 100 + 50))
    assert sums.rate == pytest.approx((kept * 100 + 50) / (kept * 5 + 5))
    assert sums.effective == pytest.approx((kept * 100 + 50) ** 2 / (kept**2 * 100 + 50))
    assert (sums.squares, sums.drafted) == pytest.approx((kept * 300 + 400, kept * 50 + 10))
    assert (sums.end, sums.requests) == (5.0, 2)


def test_an_interval_is_complete_after_its_length_in_seconds_with_units():
    intervals = Intervals()
    assert intervals.add(Sums(3.0, 10, 12, 20), 5.0) is None
    assert intervals.add(Sums(100.0), 5.0) is None
    complete = intervals.add(Sums(2.0, 5, 6, 9), 5.0)
    assert (complete.seconds, complete.units, complete.accepted, complete.squares) == (5.0, 15, 18, 29)
    assert complete.end == intervals.elapsed == 105.0
    assert intervals.active == 5.0


@pytest.mark.parametrize(("drafted", "partly"), [(0, 0), (5, 0), (6, 100), (94, 100), (95, 0), (100, 0)])
def test_an_interval_in_which_some_steps_draft_and_some_do_not_is_marked(drafted, partly):
    assert Intervals().add(Sums(5.0, 100, 100, drafted=drafted), 5.0).partly == partly


def test_intervals_are_held_until_they_are_old_enough():
    intervals = Intervals()
    for _ in range(4):
        intervals.add(Sums(5.0, 10, 12), 5.0)
    assert [interval.end for interval in intervals.older_than(10.0)] == [5.0, 10.0]
    assert [interval.end for interval in intervals.older_than(10.0)] == []
    intervals.add(Sums(60.0), 5.0)
    assert [interval.end for interval in intervals.older_than(10.0)] == [15.0, 20.0]
