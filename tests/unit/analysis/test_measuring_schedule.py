"""Bands of load without drafts: their share of the time, their place, and the schedule around them."""

from math import exp, factorial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis import measuring_schedule as measuring
from spec_decode_exporter.analysis.measuring_schedule import (
    LEAST_SHARE,
    MOST_SHARE,
    NEAR_SECONDS,
    WIDTH,
    LoadTime,
    MeasuringBand,
    MeasuringSchedule,
    NoMeasuring,
    measuring_schedule,
)
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule

K = 4


def poisson(mean, seconds=600.0):
    """Loads of requests that arrive at random: the time at each number of running requests."""
    number = range(1, round(4 * mean) + 5)
    return [LoadTime(float(n), 0.0, seconds * exp(-mean) * mean**n / factorial(n)) for n in number if n < 140]


def measured(times, present=NO_SCHEDULE):
    found = measuring_schedule(tuple(times), K, present)
    assert isinstance(found, MeasuringSchedule)
    return found


@pytest.mark.parametrize(
    ("mean", "band", "share"), [(4.0, (2, 2), 0.15), (8.0, (5, 5), 0.09), (20.0, (13, 14), 0.07), (60.0, (45, 49), 0.06)]
)  # fmt: skip
def test_a_band_takes_about_a_twentieth_of_the_time_and_lies_below_the_usual_load(mean, band, share):
    (found,) = measured(poisson(mean)).bands
    assert (found.first, found.last) == band
    assert found.share_ratio == pytest.approx(share, rel=0.2)
    assert found.last < mean


def test_two_peaks_of_load_have_a_band_each():
    found = measured([*poisson(8.0), *poisson(50.0)])
    assert [band.last < peak for band, peak in zip(found.bands, (8, 50), strict=True)] == [True, True]
    assert found.share_ratio == pytest.approx(sum(band.share_ratio for band in found.bands))


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ([], NoMeasuring.NO_STEPS),
        ([LoadTime(8.0, 0.1, 20.0)], NoMeasuring.NO_STEPS),
        ([LoadTime(8.0, 0.01, 600.0)], NoMeasuring.CONSTANT_LOAD),
        ([LoadTime(64.0, 0.002, 600.0)], NoMeasuring.CONSTANT_LOAD),
        ([LoadTime(1.0, 0.0, 600.0)], NoMeasuring.CONSTANT_LOAD),
        ([LoadTime(5000.0, 0.1, 600.0)], NoMeasuring.NO_STEPS),
    ],
)
def test_without_loads_that_differ_no_band_is_narrow(times, reason):
    assert measuring_schedule(tuple(times), K, NO_SCHEDULE) is reason


def test_thousands_of_requests_take_as_few_bands_as_hundreds(monkeypatch):
    ranked = []
    monkeypatch.setattr(measuring, "MeasuringBand", lambda *its: ranked.append(its) or MeasuringBand(*its))
    (found,) = measured([LoadTime(3000.0, 0.2, 600.0)]).bands
    assert len(ranked) < 200
    assert found.last < 3000


def test_the_rest_of_the_schedule_in_force_stays():
    present = BatchSchedule((1, 30, 500), (4, 2, 0))
    assert measured(poisson(20.0), present).schedule == BatchSchedule((1, 13, 15, 30, 500), (4, 0, 4, 2, 0))


def test_a_load_without_drafts_in_force_is_in_no_band():
    paused = measuring_schedule(tuple(poisson(20.0)), K, BatchSchedule((1,), (0,)))
    assert paused is NoMeasuring.CONSTANT_LOAD


def test_the_time_until_the_cost_is_known_is_that_near_the_band():
    times = poisson(20.0)
    near = sum(time.seconds for time in times if 11 <= time.running_requests <= 17)
    share = near / sum(time.seconds for time in times)
    assert measured(times).seconds == pytest.approx(NEAR_SECONDS / share)


@given(
    st.lists(
        st.builds(LoadTime, st.floats(1.0, 300.0), st.floats(0.0, 0.3), st.floats(0.0, 1e6)), max_size=12
    )
)
def test_whatever_the_loads_a_schedule_has_narrow_bands_with_drafts_around_them(times):
    found = measuring_schedule(tuple(times), K, NO_SCHEDULE)
    if isinstance(found, NoMeasuring):
        return
    edges = tuple((band.first, band.last) for band in found.bands)
    assert found.schedule.measuring_bands == edges
    assert found.schedule.firsts[0] == 1
    assert found.schedule.without_bands == NO_SCHEDULE
    assert {found.schedule.at(load) for load in range(1, 700)} == {0, K}
    for band in found.bands:
        assert LEAST_SHARE <= band.share_ratio <= MOST_SHARE
        assert band.last + 0.5 >= WIDTH * (band.first - 0.5)
    assert found.seconds > 0
