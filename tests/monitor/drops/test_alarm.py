from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.monitor.drops.alarm import Cusum
from spec_decode_exporter.monitor.drops.interval import Interval


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=30))
def test_the_sum_is_the_highest_over_all_beginnings(steps):
    cusum = Cusum()
    for place, step in enumerate(steps):
        cusum.add(step, 1e9, Interval(1.0, 2, 3))
        highest = max(0, *(sum(steps[first : place + 1]) for first in range(place + 1)))
        assert cusum.sum == highest


def test_the_interval_begins_when_the_sum_was_last_0():
    cusum = Cusum()
    assert not cusum.add(5, 10, Interval(1.0, 20, 30))
    assert not cusum.add(-6, 10, Interval(1.0, 20, 40))
    assert cusum.since == Interval()
    assert not cusum.add(10, 10, Interval(1.0, 20, 10))
    assert cusum.add(1, 10, Interval(2.0, 30, 25))
    assert cusum.since == Interval(3.0, 50, 35)
