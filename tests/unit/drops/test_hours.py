"""Acceptance length by the hour of the day, and falls at the same time of an earlier day."""

import pytest

from spec_decode_exporter.drops.hours import Fall, HourCell, earlier_fall, learn_hour, usual_length
from spec_decode_exporter.drops.sums import Sums

TODAY = 20_000 * 86_400.0


def at(day, hour, units=0.0, accepted=0.0):
    """An interval around the middle of an hour, ``day`` days after a midnight; the hour may be a fraction."""
    return Sums(600.0, units, accepted, wall=TODAY + day * 86_400 + (hour + 0.5) * 3600 + 300)


def learned(*intervals):
    cells = [HourCell()] * 24
    for interval in intervals:
        learn_hour(cells, interval)
    return cells


def test_an_hour_is_unknown_on_its_first_day():
    assert usual_length(learned(), at(0, 9)) is None
    cells = learned(at(0, 9, 1000, 1100))
    assert usual_length(cells, at(0, 9)) is None
    assert usual_length(cells, at(1, 9)) == pytest.approx(2.1)
    assert usual_length(cells, at(1, 10)) is None


def test_the_present_day_is_not_in_its_own_baseline():
    cells = learned(at(0, 9, 1000, 1100), at(1, 9, 500, 300), at(1, 9, 500, 200))
    assert usual_length(cells, at(1, 9)) == pytest.approx(2.1)
    assert 1.5 < usual_length(cells, at(2, 9)) < 2.1


@pytest.mark.parametrize(("hour", "length"), [(9, 2.2), (9.25, 2.2 - 0.25 * 0.4), (8.75, 2.2 - 0.25 * 0.2)])
def test_the_length_is_interpolated_between_the_middles_of_two_hours(hour, length):
    cells = learned(at(0, 8, 1000, 1000), at(0, 9, 1000, 1200), at(0, 10, 1000, 800))
    assert usual_length(cells, at(1, hour)) == pytest.approx(length)


def test_midnight_has_neighbours_on_both_sides():
    cells = learned(at(0, 23, 1000, 1000), at(1, 0, 1000, 2000), at(1, 23, 1000, 1000))
    assert usual_length(cells, at(2, -0.25)) == pytest.approx(3 - 0.25)
    assert usual_length(cells, at(1, 23.25)) == pytest.approx(2 + 0.25)


FALL = Fall(TODAY + 9 * 3600, 1800.0, 1.5)


@pytest.mark.parametrize(
    ("day", "hour", "length", "is_expected"),
    [
        (1, 9, 1.5, True),
        (8, 9, 1.5, True),
        (9, 9, 1.5, False),  # more than a week ago
        (0, 10, 1.5, False),  # the same day
        (1, 7.6, 1.5, True),
        (1, 7.4, 1.5, False),
        (1, 10.4, 1.5, True),
        (1, 10.6, 1.5, False),
        (1, 9, 1.41, True),
        (1, 9, 1.39, False),  # lower than on the earlier day
    ],
)
def test_a_fall_is_expected_at_the_time_and_to_the_length_of_an_earlier_day(day, hour, length, is_expected):
    fall = Fall(TODAY + (24 * day + hour) * 3600, 10.0, length)
    assert earlier_fall([FALL], fall, tolerance=0.1) == (FALL if is_expected else None)


def test_a_fall_that_is_over_has_its_duration_and_its_lowest_length():
    assert FALL.lasted(Sums(600.0, 100, 40)) == FALL._replace(seconds=600, length=1.4)
    assert FALL.lasted(Sums(600.0, 100, 80)).length == 1.5
