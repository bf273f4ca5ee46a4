from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.monitor.drops.alarm import Alarm, Cusum, DropStep
from spec_decode_exporter.monitor.drops.interval import Interval


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=30))
def test_the_sum_is_the_highest_over_all_beginnings(steps):
    cusum = Cusum()
    for place, step in enumerate(steps):
        cusum.add(step, 1e9, Interval(1.0, 2, 3), float(place))
        highest = max(0, *(sum(steps[first : place + 1]) for first in range(place + 1)))
        assert cusum.sum == highest


def test_the_interval_begins_when_the_sum_was_last_0():
    cusum = Cusum()
    assert not cusum.add(5, 10, Interval(1.0, 20, 30), 0.0)
    assert not cusum.add(-6, 10, Interval(1.0, 20, 40), 1.0)
    assert cusum.since == Interval()
    assert not cusum.add(10, 10, Interval(1.0, 20, 10), 2.0)
    assert cusum.add(1, 10, Interval(2.0, 30, 25), 3.0)
    assert cusum.since == Interval(3.0, 50, 35)
    assert cusum.began == 2.0


def fed(alarm, evidence, *, is_drop):
    """Feed an alarm with one sum and a threshold of 10, one increment a second."""
    results = []
    for now, each in enumerate(evidence):
        steps = [DropStep(each, 10.0)]
        results.append(alarm.observe(steps, Interval(1.0, 20, 10), float(now), lambda _: is_drop))
    return results


def test_an_alarm_knows_when_a_drop_began_and_when_it_ended():
    alarm = Alarm([Cusum()])
    fed(alarm, [-1, 6, 6], is_drop=True)
    assert (alarm.dropped, alarm.changed) == (True, 1.0)
    fed(alarm, [4, 4, 4, -6, -6], is_drop=True)
    assert (alarm.dropped, alarm.changed) == (False, 3.0)


def test_a_sum_that_is_no_drop_starts_again():
    alarm = Alarm([Cusum()])
    assert fed(alarm, [6, 6, 6], is_drop=False) == [None, None, None]
    assert alarm.sums[0].sum == 6
    assert not alarm.dropped
