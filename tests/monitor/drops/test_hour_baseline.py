from __future__ import annotations

import json
from math import exp

import pytest
from pydantic import TypeAdapter

from spec_decode_exporter.monitor.drops.hour_baseline import (
    DAY_SECONDS,
    HOUR_SECONDS,
    MEMORY_DAYS,
    HourBaseline,
)

STATE = TypeAdapter(HourBaseline)
TODAY = 20_000 * DAY_SECONDS
MIDDLE = HOUR_SECONDS / 2


def at(day, hour):
    """Middle of an hour, ``day`` days after a midnight."""
    return TODAY + day * DAY_SECONDS + hour * HOUR_SECONDS + MIDDLE


def test_an_hour_is_unknown_on_its_first_day():
    baseline = HourBaseline()
    assert baseline.length(at(0, 9)) is None
    baseline.add(at(0, 9), 1000, 1100)
    assert baseline.length(at(0, 9)) is None
    assert baseline.length(at(1, 9)) == pytest.approx(2.1)
    assert baseline.length(at(1, 10)) is None


def test_the_present_day_is_not_in_its_own_baseline():
    baseline = HourBaseline()
    baseline.add(at(0, 9), 1000, 1100)
    baseline.add(at(1, 9), 1000, 500)
    assert baseline.length(at(1, 9)) == pytest.approx(2.1)
    assert 1.5 < baseline.length(at(2, 9)) < 2.1


def test_earlier_days_weigh_less():
    baseline = HourBaseline()
    baseline.add(at(0, 9), 1000, 2000)
    baseline.add(at(1, 9), 1000, 1000)
    kept = exp(-1 / MEMORY_DAYS)
    assert baseline.length(at(2, 9)) == pytest.approx(1 + (2 * kept + 1) / (kept + 1), rel=1e-3)


def test_the_length_is_interpolated_between_the_middles_of_two_hours():
    baseline = HourBaseline()
    for hour, accepted in ((8, 1000), (9, 1200), (10, 800)):
        baseline.add(at(0, hour), 1000, accepted)
    assert baseline.length(at(1, 9)) == pytest.approx(2.2)
    assert baseline.length(at(1, 9) + MIDDLE / 2) == pytest.approx(2.2 - 0.25 * 0.4)
    assert baseline.length(at(1, 9) - MIDDLE / 2) == pytest.approx(2.2 - 0.25 * 0.2)


def test_midnight_has_neighbours_on_both_sides():
    baseline = HourBaseline()
    baseline.add(at(0, 23), 1000, 1000)
    baseline.add(at(1, 0), 1000, 2000)
    baseline.add(at(1, 23), 1000, 1000)
    assert baseline.length(at(2, 0) - MIDDLE / 2) == pytest.approx(3 - 0.25)
    assert baseline.length(at(1, 23) + MIDDLE / 2) == pytest.approx(2 + 0.25)


def test_an_unknown_neighbour_is_ignored():
    baseline = HourBaseline()
    baseline.add(at(0, 9), 1000, 1100)
    assert baseline.length(at(1, 9) + MIDDLE / 2) == pytest.approx(2.1)


def test_it_survives_json_and_stays_small():
    baseline = HourBaseline()
    for day in range(9):
        for hour in range(24):
            baseline.add(at(day, hour), 48_123, 51_007 + hour)
    text = json.dumps(STATE.dump_python(baseline, mode="json"))
    assert STATE.validate_python(json.loads(text)) == baseline
    assert len(text) < 1500


@pytest.mark.parametrize("change", [lambda cells: cells.pop(), lambda cells: cells.append(cells[0])])
def test_another_number_of_hours_is_invalid(change):
    saved = STATE.dump_python(HourBaseline(), mode="json")
    change(saved["cells"])
    with pytest.raises(ValueError, match="cells"):
        STATE.validate_python(saved)
