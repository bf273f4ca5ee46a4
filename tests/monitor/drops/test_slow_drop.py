from __future__ import annotations

import json
import random
from math import sqrt

import pytest
from pydantic import TypeAdapter

from spec_decode_exporter.analysis.drops.drop import DropChange, DropKind
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.monitor.drops.interval import Interval
from spec_decode_exporter.monitor.drops.slow_drop import FROZEN_SECONDS, SlowDropDetector, SlowState

STATE = TypeAdapter(SlowState)
HOUR = 6
"""Intervals of ten minutes."""


def interval(length, drafts=60_000):
    """Ten minutes."""
    return Interval(600.0, drafts, (length - 1) * drafts)


def fed(detector, lengths, drafts=60_000):
    changes = ((place, detector.observe(interval(length, drafts))) for place, length in enumerate(lengths, 1))
    return [(place, change) for place, change in changes if change]


def usual(hours=12):
    return [2.1] * hours * HOUR


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
    # which 0.5 are allowed: 1/6 + 2/6 + … exceeds 7 with the ninth, the twelfth of the decline. By then the baseline,
    # of 8 hours, has lost some of the decline before the last hour, which takes one more.
    sinking = [2.1 * (1 - 0.15 * place / 18) for place in range(1, 19)]
    [(place, change)] = fed(detector, sinking)
    assert place in (12, 13)
    assert change.kind is DropKind.SLOW
    assert change.baseline_length == pytest.approx(2.1, abs=0.01)
    assert change.length < 2.0


def test_a_lasting_fall_by_15_per_cent_is_detected_in_half_an_hour():
    # 3 deviations less 0.5 are 2.5 an interval: the third makes 7.5.
    detector = SlowDropDetector(DropPolicy())
    fed(detector, usual())
    assert fed(detector, [1.785] * 3) == [
        (3, DropChange(DropKind.SLOW, True, pytest.approx(2.1), pytest.approx(1.785), 1800.0))
    ]


def test_a_lasting_fall_by_4_per_cent_is_no_drop():
    detector = SlowDropDetector(DropPolicy())
    fed(detector, usual())
    assert fed(detector, [2.1 * 0.96] * 24 * HOUR) == []


def test_with_few_drafts_the_measured_deviation_sets_the_threshold():
    chance = random.Random(1)
    detector = SlowDropDetector(DropPolicy())
    noisy = [chance.gauss(2.1, 0.3) for _ in range(24 * HOUR)]
    assert fed(detector, noisy, drafts=100) == []
    # 0.3² = V (1/100): the variance per draft is 9, with a few per cent because it is not known better.
    assert detector._deviation(interval(2.1, 100)) == pytest.approx(0.3, rel=0.2)
    assert detector._deviation(interval(2.1, 400)) == pytest.approx(0.15, rel=0.25)
    assert detector._deviation(interval(2.1, 10**6)) == pytest.approx(0.105, rel=0.05)


def test_the_deviation_includes_the_standard_error_of_the_baseline():
    detector = SlowDropDetector(DropPolicy())
    fed(detector, [2.6, 1.6] * HOUR, drafts=100)
    state = detector.state
    expected = state.differences.variance() * (1 / 50 + 1 / state.baseline.effective_drafts)
    assert detector._deviation(interval(2.1, 50)) == pytest.approx(sqrt(expected))


def test_no_drop_is_detected_in_the_first_two_hours():
    detector = SlowDropDetector(DropPolicy())
    assert fed(detector, [2.1] * 10 + [1.2]) == []
    assert detector.state.alarm.sums[0].sum == 0
    late = SlowDropDetector(DropPolicy())
    assert fed(late, [2.1] * 12 + [1.2]) != []


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
    # Half a deviation an interval makes 7 with the fourteenth, and more than that with the next.
    detector = dropped()
    found = fed(detector, [2.1] * 24)
    assert found == [(15, DropChange(DropKind.SLOW, False, pytest.approx(2.1), pytest.approx(2.1), 9000.0))]


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
    assert place * 600 == FROZEN_SECONDS - 3 * 600
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
    fed(detector, usual() + [1.785] * 2)
    assert detector.state.alarm.sums[0].sum == pytest.approx(5.0)
    assert carried(detector).state.alarm.sums[0].sum == 3.5


def test_the_state_stays_small():
    detector = SlowDropDetector(DropPolicy())
    fed(detector, [2.1, 2.0] * 24 * HOUR + [1.0] * 20)
    assert len(json.dumps(STATE.dump_python(detector.state, mode="json", by_alias=True))) < 4000
