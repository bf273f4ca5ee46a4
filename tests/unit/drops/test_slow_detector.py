"""Slow drops: intervals of ten minutes against the last hours and the days before."""

from dataclasses import replace
from math import pi, sin

import pytest

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.detector import SlowDetector
from spec_decode_exporter.drops.sums import Drop, DropKind, Sums, Transition

HOUR = 6
"""Intervals of ten minutes."""
DAY = 24 * HOUR
MIDNIGHT = 20_000 * 86_400.0
THIRD_DAY = MIDNIGHT + 2 * 86_400
BEGAN, ENDED, LEARNED_AGAIN = Transition.BEGAN, Transition.ENDED, Transition.LEARNED_AGAIN


def intervals(lengths, wall=None, drafts=60_000):
    """Ten minutes each; the first begins at ``wall``."""
    ends = (0.0 if wall is None else wall + 600 * place for place in range(1, len(lengths) + 1))
    return [
        Sums(600.0, drafts, (length - 1) * drafts, wall=end)
        for length, end in zip(lengths, ends, strict=True)
    ]


def daily(days, swing=0.06):
    """A mix of requests that changes with the time of day: the length swings by 6 % about 2.1."""
    return [2.1 * (1 + swing * sin(2 * pi * place / DAY)) for place in range(round(days * DAY))]


def sunk(lengths, start):
    """Sink by 15 % over 3 hours, from an interval on."""
    parts = (1 - 0.15 * min(1, max(0, (place - start) / (3 * HOUR))) for place in range(len(lengths)))
    return [length * part for length, part in zip(lengths, parts, strict=True)]


@pytest.fixture(name="detector")
def detector_fixture(fed):
    """A detector that knows 12 hours without a clock."""
    detector = SlowDetector(DropPolicy())
    assert fed(detector, intervals([2.1] * 12 * HOUR)) == []
    return detector


@pytest.fixture(name="known")
def known_fixture(fed):
    """A detector that knows two days."""
    detector = SlowDetector(DropPolicy())
    assert fed(detector, intervals([2.1] * 2 * DAY, MIDNIGHT)) == []
    return detector


@pytest.fixture(name="dropped")
def dropped_fixture(detector, fed):
    """A detector that has just found a fall by 15 %."""
    [(place, drop)] = fed(detector, intervals([1.785] * 6))
    assert (place, drop.transition) == (5, BEGAN)
    return detector


def test_five_intervals_of_a_baseline_are_needed_each_an_hour_old():
    detector, known = SlowDetector(DropPolicy()), []
    for interval in intervals([2.1] * (2 * HOUR + 1)):
        detector.observe(interval)
        known.append(detector.dropped)
    assert known == [None] * (2 * HOUR - 1) + [False] * 2


def test_a_decline_of_15_per_cent_over_3_hours_is_detected_before_it_ends(detector, fed):
    # With many drafts a deviation is a third of 15 %, 0.105. Interval i is lower by i · 0.0175, or i/6 deviations, of
    # which 1 is allowed on the first day: 1/6 + 2/6 + … exceeds 9 with the tenth, the sixteenth of the decline. By
    # then the baseline, of 8 hours, has lost some of the decline before the last hour, which takes one more.
    [(place, drop)] = fed(detector, intervals([2.1 * (1 - 0.15 * place / 18) for place in range(1, 19)]))
    assert place in (16, 17)
    assert drop.baseline_length == pytest.approx(2.1, abs=0.03)
    assert drop.length < 2.0


def test_a_lasting_fall_by_15_per_cent_is_detected_sooner_once_the_hour_has_a_day_before(
    detector, known, fed
):
    # On the first day 3 deviations less 1 are 2 an interval: the fifth exceeds 9.
    drop = Drop(DropKind.SLOW, BEGAN, pytest.approx(2.1), pytest.approx(1.785), 3000.0)
    assert fed(detector, intervals([1.785] * 5)) == [(5, drop)]
    # Later 3 deviations less 0.5 are 2.5 an interval: the third exceeds 7.
    assert fed(known, intervals([1.785] * 3, THIRD_DAY)) == [(3, replace(drop, seconds=1800.0))]


@pytest.mark.parametrize(
    ("swing", "wall", "begins"), [(0.06, MIDNIGHT, 0), (0.1, MIDNIGHT, 1), (0.1, None, 7)]
)
def test_a_daily_mix_is_no_drop_from_the_second_day_on_if_there_is_a_clock(swing, wall, begins, fed):
    found = fed(SlowDetector(DropPolicy()), intervals(daily(7, swing), wall))
    assert [drop.transition for _, drop in found].count(BEGAN) == begins


@pytest.mark.parametrize("day", [1.25, 1.75, 2.0, 4.5])
def test_a_sink_on_top_of_a_daily_mix_is_detected_from_the_second_day_on(day, fed):
    start = round(day * DAY)
    [(place, drop)] = fed(SlowDetector(DropPolicy()), intervals(sunk(daily(day + 0.25), start), MIDNIGHT))
    assert drop.transition is BEGAN
    assert 0 < (place - start) / HOUR < 4.5


def test_a_drop_ends_when_the_mirrored_sum_exceeds_its_threshold(dropped, fed):
    # A deviation an interval makes 9 with the ninth, and more than that with the next.
    end = Drop(DropKind.SLOW, ENDED, pytest.approx(2.1), pytest.approx(2.1), 6000.0)
    assert fed(dropped, intervals([2.1] * 24)) == [(10, end)]


def test_after_eight_hours_of_a_drop_the_baseline_is_reset(dropped, fed):
    [(place, drop)] = fed(dropped, intervals([1.785] * 8 * HOUR))
    assert (place, drop.transition) == (8 * HOUR - 1, LEARNED_AGAIN)
    assert fed(dropped, intervals([1.785] * 4 * HOUR)) == []
    assert dropped.state.baseline.length == pytest.approx(1.785)


def test_a_nightly_job_of_hard_requests_is_a_drop_on_the_first_night_alone(fed, restarted):
    """It begins ten minutes later each night: the hours of the days before do not hold all of it."""
    detector, found = SlowDetector(DropPolicy()), []
    for night in range(4):
        lengths = [2.1] * DAY
        lengths[3 * HOUR + night : 4 * HOUR + night] = [1.5] * HOUR
        detector = restarted(detector)
        found += fed(detector, intervals(lengths, MIDNIGHT + night * 86_400))
    transitions = [drop.transition for _, drop in found]
    assert transitions.count(BEGAN) == 1
    assert Transition.EXPECTED in transitions
    assert detector.dropped is False


def test_what_lasted_for_eight_hours_is_no_regular_fall(dropped, fed):
    fed(dropped, intervals([1.785] * 8 * HOUR))
    assert dropped.state.falls == []


def test_after_a_restart_the_sum_is_at_most_half_of_its_threshold(detector, fed, restarted):
    fed(detector, intervals([1.785] * 4))
    assert detector.state.cusums[0].sum == pytest.approx(8.0)
    assert restarted(detector).state.cusums[0].sum == 3.5
