"""Time saved: sums of decode time at speed-ups with bounds, of a process and of a day."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.costs.time_saved import DAY_SECONDS, DayTime, DecodeTime, TimeSaved
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.window.engine_windows import NANO

MIDNIGHT = 20_718 * DAY_SECONDS
NOON = MIDNIGHT + DAY_SECONDS / 2


TWICE = Estimate(2.0, 2.0, 2.0, 0.0)

speedups = (
    st.tuples(*[st.floats(0.01, 20.0)] * 3)
    .map(sorted)
    .map(lambda bounds: Estimate(bounds[1], bounds[0], bounds[2], 0.0))
)
polls = st.lists(st.tuples(st.integers(0, 10**15), st.none() | speedups), max_size=20)
"""Nanoseconds of decoding, and the speed-up."""


@given(polls)
def test_bounds_are_ordered_and_only_time_with_bounds_is_counted(polls):
    saved, decoded = TimeSaved(), 0
    for nanoseconds, speedup in polls:
        decoded += nanoseconds
        saved.add(decoded, speedup, NOON)
    total = saved.total
    value, lower, upper = total.saved
    assert lower <= value <= upper
    assert total.actual == pytest.approx(sum(spent for spent, speedup in polls if speedup) / NANO)
    assert all(number >= 0 for number in total), "no sum falls"


def test_a_new_day_begins_at_midnight_and_the_sums_of_the_process_continue():
    saved = TimeSaved()
    for n, wall in enumerate((MIDNIGHT - 2.0, MIDNIGHT - 1.0, MIDNIGHT, MIDNIGHT + 1.0), 1):
        saved.add(n * NANO, TWICE, wall)
    assert (saved.total.actual, saved.today) == (4.0, DayTime(MIDNIGHT, DecodeTime(2.0, 4.0, 4.0, 4.0)))
    saved.add(4 * NANO, None, MIDNIGHT + DAY_SECONDS)
    assert saved.today == DayTime()


@pytest.mark.parametrize(
    ("restored", "first", "today"),
    [
        (NOON - 60, NOON, DayTime(NOON - 60, DecodeTime(3.0, 6.0, 6.0, 6.0))),
        (MIDNIGHT - 60, NOON, DayTime(NOON, DecodeTime(1.0, 2.0, 2.0, 2.0))),
        (0.0, NOON, DayTime(NOON, DecodeTime(1.0, 2.0, 2.0, 2.0))),
    ],
    ids=["same day", "the day before", "nothing saved"],
)
def test_the_day_continues_after_a_restart_of_the_exporter_and_the_counters_begin_at_0(
    restored, first, today
):
    saved = TimeSaved()
    saved.today = DayTime(restored, DecodeTime(2.0, 4.0, 4.0, 4.0)) if restored else DayTime()
    assert saved.total == DecodeTime()
    saved.add(NANO, TWICE, first)
    assert (saved.total.actual, saved.today) == (1.0, today)


def test_the_sum_of_a_day_begins_again_with_another_source_of_the_cost():
    saved = TimeSaved()
    saved.add(1 * NANO, Estimate(3.0, 3.0, 3.0, 0.0), NOON, CostSource.TYPICAL)
    saved.add(2 * NANO, Estimate(0.5, 0.5, 0.5, 0.0), NOON + 60, CostSource.BASELINE)
    assert saved.today == DayTime(NOON + 60, DecodeTime(1.0, 0.5, 0.5, 0.5), CostSource.BASELINE)
    assert saved.total.actual == 2.0, "counters never fall"
