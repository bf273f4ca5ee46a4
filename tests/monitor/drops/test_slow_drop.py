from __future__ import annotations

import json
import random
from math import pi, sin, sqrt

import pytest
from pydantic import TypeAdapter

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.drop import DropChange, DropKind
from spec_decode_exporter.monitor.drops.interval import Interval
from spec_decode_exporter.monitor.drops.slow_drop import FROZEN_SECONDS, SlowDropDetector, SlowState

STATE = TypeAdapter(SlowState)
HOUR = 6
"""Intervals of ten minutes."""


DAY = 24 * HOUR
MIDNIGHT = 20_000 * 86_400.0


def interval(length, drafts=60_000, wall=0.0):
    """Ten minutes."""
    return Interval(600.0, drafts, (length - 1) * drafts, wall=wall)


def fed(detector, lengths, drafts=60_000, wall=None):
    """Feed intervals, the first of which begins at ``wall``; return the changes by the number of intervals."""
    ends = (0.0 if wall is None else wall + 600 * place for place in range(1, len(lengths) + 1))
    intervals = (interval(length, drafts, end) for length, end in zip(lengths, ends, strict=True))
    changes = ((place, detector.observe(each)) for place, each in enumerate(intervals, 1))
    return [(place, change) for place, change in changes if change]


def daily(days, swing=0.06):
    """A mix of requests that changes with the time of day: the length swings by 6 % about 2.1."""
    return [2.1 * (1 + swing * sin(2 * pi * place / DAY)) for place in range(round(days * DAY))]


def sunk(lengths, start):
    """Sink by 15 % over 3 hours, from an interval on."""
    return [
        length * (1 - 0.15 * min(1, max(0, (place - start) / (3 * HOUR))))
        for place, length in enumerate(lengths)
    ]


def usual(hours=12):
    return [2.1] * hours * HOUR


def test_five_intervals_of_a_baseline_are_needed_each_an_hour_old():
    detector = SlowDropDetector(DropPolicy())
    known = []
    for _ in range(2 * HOUR + 1):
        detector.observe(interval(2.1))
        known.append(detector.dropped)
    assert known == [None] * (2 * HOUR - 1) + [False] * 2


def dropped():
    detector = SlowDropDetector(DropPolicy())
    fed(detector, usual())
    [(_, change)] = fed(detector, [1.785] * 6)
    assert change.dropped
    return detector


def carried(detector):
    other = SlowDropDetector(detector.policy)
    other.restore(
        STATE.validate_python(
            json.loads(json.dumps(STATE.dump_python(detector.state, mode="json", by_alias=True)))
        )
    )
    return other


def test_a_decline_of_15_per_cent_over_3_hours_is_detected_before_it_ends():
    detector = SlowDropDetector(DropPolicy())
    assert fed(detector, usual()) == []
    # With many drafts a deviation is a third of 15 %, 0.105. Interval i is lower by i · 0.0175, or i/6 deviations, of
    # which 1 is allowed on the first day: 1/6 + 2/6 + … exceeds 9 with the tenth, the sixteenth of the decline. By
    # then the baseline, of 8 hours, has lost some of the decline before the last hour, which takes one more.
    sinking = [2.1 * (1 - 0.15 * place / 18) for place in range(1, 19)]
    [(place, change)] = fed(detector, sinking)
    assert place in (16, 17)
    assert change.kind is DropKind.SLOW
    assert change.baseline_length == pytest.approx(2.1, abs=0.03)
    assert change.length < 2.0


def test_a_lasting_fall_by_15_per_cent_is_detected_in_50_minutes_on_the_first_day():
    # 3 deviations less 1 are 2 an interval: the fifth exceeds 9.
    detector = SlowDropDetector(DropPolicy())
    fed(detector, usual())
    assert fed(detector, [1.785] * 5) == [
        (5, DropChange(DropKind.SLOW, True, pytest.approx(2.1), pytest.approx(1.785), 3000.0))
    ]


def test_a_lasting_fall_by_15_per_cent_is_detected_in_half_an_hour_once_the_hour_has_a_day_before():
    # 3 deviations less 0.5 are 2.5 an interval: the third exceeds 7.
    detector = SlowDropDetector(DropPolicy())
    assert fed(detector, [2.1] * 2 * DAY, wall=MIDNIGHT) == []
    assert fed(detector, [1.785] * 3, wall=MIDNIGHT + 2 * 86_400) == [
        (3, DropChange(DropKind.SLOW, True, pytest.approx(2.1), pytest.approx(1.785), 1800.0))
    ]


def test_a_daily_mix_is_no_drop_on_any_day():
    assert fed(SlowDropDetector(DropPolicy()), daily(7), wall=MIDNIGHT) == []


def test_a_larger_swing_alarms_on_the_first_day_and_without_a_clock_every_day():
    for wall, begins in ((MIDNIGHT, 1), (None, 7)):
        found = fed(SlowDropDetector(DropPolicy()), daily(7, swing=0.1), wall=wall)
        assert sum(change.dropped for _, change in found) == begins


@pytest.mark.parametrize("day", [1.25, 1.75, 2.0, 4.5])
def test_a_sink_on_top_of_a_daily_mix_is_detected_from_the_second_day_on(day):
    start = round(day * DAY)
    lengths = sunk(daily(day + 0.25), start)
    [(place, change)] = fed(SlowDropDetector(DropPolicy()), lengths, wall=MIDNIGHT)
    assert change.dropped
    assert 0 < (place - start) / HOUR < 4.5


def test_a_length_as_in_the_hours_before_is_no_drop_though_the_days_before_were_higher():
    # Fewer easy requests from one evening on: the length falls slowly, by 10 % over 12 hours, and stays there.
    detector = SlowDropDetector(DropPolicy())
    fed(detector, [2.1] * DAY * 2, wall=MIDNIGHT)
    falling = [2.1 * (1 - 0.10 * place / (24 * HOUR)) for place in range(24 * HOUR)]
    assert fed(detector, falling, wall=MIDNIGHT + 2 * 86_400) == []


def test_traffic_in_regimes_of_twenty_minutes_raises_the_deviation_beyond_that_of_independent_intervals():
    chance = random.Random(3)
    levels = [chance.choice([1.95, 2.25]) for _ in range(3 * DAY // 2)]
    regimes = [level for level in levels for _ in range(2)]
    independent = [chance.choice([1.95, 2.25]) for _ in regimes]
    one, other = SlowDropDetector(DropPolicy()), SlowDropDetector(DropPolicy())
    fed(one, regimes)
    fed(other, independent)
    assert one._deviation(interval(2.1)) > 1.2 * other._deviation(interval(2.1)) > 1.2 * 0.15


def test_a_shortfall_of_hours_that_recovers_raises_the_deviation():
    detector = SlowDropDetector(DropPolicy())
    fed(detector, [2.1] * 2 * DAY, wall=MIDNIGHT)
    before = detector._deviation(interval(2.1))
    fed(detector, ([2.1 * 0.94] * 16 + [2.1] * 32) * 3, wall=MIDNIGHT + 2 * 86_400)
    assert detector._deviation(interval(2.1)) > 1.3 * before


def test_after_a_drop_of_eight_hours_the_hours_of_the_day_stay_known():
    detector = SlowDropDetector(DropPolicy())
    fed(detector, [2.1] * 2 * DAY, wall=MIDNIGHT)
    found = fed(detector, [1.785] * DAY, wall=MIDNIGHT + 2 * 86_400)
    assert [(change.dropped, change.learned_again) for _, change in found] == [(True, False), (False, True)]
    assert detector.state.hours.length(MIDNIGHT + 3 * 86_400) == pytest.approx(2.1, abs=0.01)
    assert detector.state.baseline.length == pytest.approx(1.785)


def test_a_lasting_fall_by_4_per_cent_is_no_drop():
    detector = SlowDropDetector(DropPolicy())
    fed(detector, usual())
    assert fed(detector, [2.1 * 0.96] * 24 * HOUR) == []


def test_with_few_drafts_the_measured_deviation_sets_the_threshold():
    chance = random.Random(1)
    detector = SlowDropDetector(DropPolicy())
    noisy = [chance.gauss(2.1, 0.3) for _ in range(24 * HOUR)]
    assert fed(detector, noisy, drafts=100) == []
    # 0.3² = V (1/100): the variance per draft is 9, and more since the largest of three uncertain ones counts.
    assert 0.3 <= detector._deviation(interval(2.1, 100)) <= 0.4
    assert 0.15 <= detector._deviation(interval(2.1, 400)) <= 0.21
    assert detector._deviation(interval(2.1, 10**6)) == pytest.approx(0.105, rel=0.05)


def test_the_deviation_includes_the_standard_error_of_the_baseline():
    detector = SlowDropDetector(DropPolicy())
    fed(detector, [2.6, 1.6] * HOUR, drafts=100)
    state = detector.state
    expected = state.noise.variance() * (1 / 50 + 1 / state.baseline.effective_drafts)
    assert detector._deviation(interval(2.1, 50)) == pytest.approx(sqrt(expected))


def test_no_drop_is_detected_in_the_first_two_hours():
    detector = SlowDropDetector(DropPolicy())
    assert fed(detector, [2.1] * 10 + [1.0]) == []
    assert detector.state.alarm.sums[0].sum == 0
    late = SlowDropDetector(DropPolicy())
    assert fed(late, [2.1] * 12 + [1.0]) != []


def test_time_without_drafts_does_not_count():
    detector = SlowDropDetector(DropPolicy())
    fed(detector, usual())
    assert all(detector.observe(Interval(60.0)) is None for _ in range(24 * 60))
    before = detector.state.baseline.mean
    assert fed(detector, [2.1]) == []
    assert detector.state.baseline.mean == pytest.approx(before)


def test_the_baseline_is_frozen_during_a_drop_and_excludes_the_hour_before():
    detector = dropped()
    before = detector.state.baseline.mean
    assert fed(detector, [1.785] * 12) == []
    assert detector.state.baseline.mean == before
    assert fed(detector, [2.1] * 30) != []
    assert detector.state.baseline.length == pytest.approx(2.1, abs=1e-9)


def test_a_drop_ends_when_the_mirrored_sum_exceeds_its_threshold():
    # A deviation an interval makes 9 with the ninth, and more than that with the next.
    detector = dropped()
    found = fed(detector, [2.1] * 24)
    assert found == [(10, DropChange(DropKind.SLOW, False, pytest.approx(2.1), pytest.approx(2.1), 6000.0))]


def test_a_drop_that_ends_within_the_hour_does_not_change_the_baseline():
    detector = dropped()
    [(place, change)] = fed(detector, [5.0])
    assert (place, change.dropped) == (1, False)
    assert fed(detector, [2.1] * 12) == []
    assert detector.state.baseline.length == pytest.approx(2.1, abs=1e-9)


def test_after_eight_hours_of_a_drop_the_baseline_is_reset():
    detector = dropped()
    [(place, change)] = fed(detector, [1.785] * 8 * HOUR)
    assert change.learned_again
    assert not change.dropped
    assert place * 600 == FROZEN_SECONDS - 600
    assert fed(detector, [1.785] * 4 * HOUR) == []
    assert detector.state.baseline.length == pytest.approx(1.785)


def test_a_restart_of_the_exporter_changes_nothing_in_quiet_times():
    chance = random.Random(1)
    detector = SlowDropDetector(DropPolicy())
    fed(detector, [chance.gauss(2.1, 0.02) for _ in range(40)])
    detector.observe(Interval(100.0, 1000, 1100))
    other = carried(detector)
    assert STATE.dump_python(other.state) == STATE.dump_python(detector.state)
    rest = [chance.gauss(2.1, 0.02) for _ in range(40)] + [1.5] * 5
    assert fed(other, rest) == fed(detector, rest) != []


def test_after_a_restart_the_sum_is_at_most_half_of_its_threshold():
    detector = SlowDropDetector(DropPolicy())
    fed(detector, usual() + [1.785] * 4)
    assert detector.state.alarm.sums[0].sum == pytest.approx(8.0)
    assert carried(detector).state.alarm.sums[0].sum == 3.5


def test_the_state_stays_small():
    detector = SlowDropDetector(DropPolicy())
    fed(detector, [2.1, 2.0] * 24 * HOUR + [1.0] * 20, wall=MIDNIGHT)
    assert len(json.dumps(STATE.dump_python(detector.state, mode="json", by_alias=True))) < 4000
