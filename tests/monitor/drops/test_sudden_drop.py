from __future__ import annotations

import json
import random
from itertools import pairwise
from math import e, log, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.drop import DropChange, DropKind, LiveDrop
from spec_decode_exporter.monitor.drops.interval import Interval
from spec_decode_exporter.monitor.drops.sudden_drop import FROZEN_SECONDS, SuddenDropDetector, SuddenState

HOUR = 3600
WEEK = 7 * 86_400
STATE = TypeAdapter(SuddenState)


def second(accepted, drafts=10, seconds=1.0):
    """An increment whose drafts vary by 1 if they are independent."""
    return Interval(seconds, drafts, accepted, drafts + accepted**2 / drafts if drafts else 0)


def fed(detector, increments):
    """Feed increments; return the changes, each with the number of increments that it took."""
    changes = ((place, detector.observe(one)) for place, one in enumerate(increments, 1))
    return [(place, change) for place, change in changes if change]


def usual(seconds=HOUR, accepted=11):
    """A length of 2.1 at ten drafts a second."""
    return [second(accepted)] * seconds


def dropped():
    """A detector that has just found a drop from 2.1 to 1.4."""
    detector = SuddenDropDetector(DropPolicy())
    assert fed(detector, usual()) == []
    [(_, change)] = fed(detector, usual(6, accepted=4))
    assert change.dropped
    return detector


def carried(detector):
    """The same detector in another process."""
    other = SuddenDropDetector(detector.policy)
    other.restore(
        STATE.validate_python(
            json.loads(json.dumps(STATE.dump_python(detector.state, mode="json", by_alias=True)))
        )
    )
    return other


def test_a_fall_from_2_1_to_1_4_at_ten_drafts_a_second_is_detected_in_six_seconds():
    # A week has 6 048 000 drafts. The second sum, κ = 15 % of 2.1 = 0.315:
    # h = 1/(2 · 0.315) · ln(1 + 2 · 0.315² · 6 048 000) ≈ 22.2 tokens, and a second brings 10 · (1.1 - 0.315) - 4
    # = 3.85, less what the baseline is not known exactly: the sixth passes it.
    # V is 1, that of independent drafts, times 1: an hour's drafts are all alike.
    assert log(1 + 2 * 0.315**2 * 10 * WEEK) / 0.63 == pytest.approx(22.2, abs=0.05)
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, usual())
    found = fed(detector, usual(100, accepted=4))
    assert found == [(6, DropChange(DropKind.SUDDEN, True, pytest.approx(2.1), pytest.approx(1.4), 6.0, 6.0))]


def test_a_fall_by_15_per_cent_is_detected_by_the_first_sum():
    # κ = 0.1575, h = 1/0.315 · ln(1 + 2 · 0.1575² · 6 048 000) ≈ 40.0. Of 100 drafts, 110 - 31.5 tokens remain, and
    # 9.425 a second are expected where 7.85 come: 25.4 seconds, and the baseline's own error.
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, usual())
    error = sqrt(1 / detector.state.baseline.effective_drafts)
    seconds = log(1 + 2 * 0.1575**2 * 10 * WEEK) / 0.315 / (10 * (0.1575 - error))
    [(place, _)] = fed(detector, [second(7.85)] * 60)
    assert seconds < place <= seconds + 1
    assert 25 < place < 29


def test_a_fall_by_less_than_half_of_15_per_cent_is_no_drop():
    detector = SuddenDropDetector(DropPolicy())
    assert fed(detector, usual() + [second(9.5)] * 120) == []


def test_detection_begins_after_60_seconds_with_drafts():
    early, late = SuddenDropDetector(DropPolicy()), SuddenDropDetector(DropPolicy())
    silence = [Interval(1.0)] * 100
    assert fed(early, usual(30) + silence + usual(29)) == []
    assert early.variances == []
    assert fed(late, usual(30) + silence + usual(31)) == []
    assert late.variances != []


def test_time_without_drafts_changes_nothing():
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, [*usual(), *[Interval(1.0)] * 60])
    before, limits = detector.state.baseline, detector._limits
    assert fed(detector, [Interval(1.0)] * 3 * HOUR) == []
    assert detector.state.baseline is before
    assert detector._limits == limits
    assert [place for place, _ in fed(detector, usual(100, accepted=4))] == [6]


def test_the_baseline_is_frozen_during_a_drop():
    detector = dropped()
    before = STATE.dump_python(detector.state)
    assert fed(detector, usual(1700, accepted=4)) == []
    after = STATE.dump_python(detector.state)
    assert after["baseline"] == before["baseline"]
    assert after["noise"] == before["noise"]


def test_a_drop_ends_when_the_mirrored_sum_exceeds_its_threshold():
    # It rises by 10 · (1.1 - 0.9425) = 1.575 a second, and by the baseline's error, up to the same 40.0.
    detector = dropped()
    fed(detector, usual(100, accepted=4))
    [(place, change)] = fed(detector, usual(100))
    assert place == 25
    assert change == DropChange(DropKind.SUDDEN, False, pytest.approx(2.1), pytest.approx(2.1), 25.0, 25.0)
    assert fed(detector, usual(100)) == []


def noisy(seconds, accepted, chance):
    """Seconds whose accepted tokens differ much more than independent drafts."""
    return [second(max(0.0, accepted + chance.gauss(0, 4))) for _ in range(seconds)]


def test_a_drop_ends_after_30_seconds_of_enough_normal_drafts():
    # Sums over many drafts vary, so that the mirrored sum alone would need more time.
    chance, policy = random.Random(4), DropPolicy(false_alarm_period=52 * WEEK)
    detector = SuddenDropDetector(policy)
    fed(detector, noisy(HOUR, 11, chance))
    assert [change.dropped for _, change in fed(detector, noisy(60, 4, chance))] == [True]
    by_sum = detector._limits[0].threshold / (10 * 0.1575)
    [(place, change)] = fed(detector, noisy(int(by_sum), 11, chance))
    assert not change.dropped
    assert 30 <= place <= 50 < by_sum
    assert change.age >= 30


def test_a_drop_does_not_end_while_the_newest_drafts_are_few():
    detector = dropped()
    fed(detector, usual(100, accepted=4))
    few = [Interval(1.0, 1, 1.1, 1.3)] * 40
    assert fed(detector, few) == []


def test_a_new_drop_is_not_ended_by_the_drafts_before_it():
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, usual(HOUR, accepted=11))
    changes = fed(detector, usual(6, accepted=4) + usual(3))
    assert [change.dropped for _, change in changes] == [True]


def test_a_present_drop_tells_its_begin_and_its_newest_value():
    detector = dropped()
    assert detector.live() == LiveDrop(pytest.approx(2.1), pytest.approx(1.4), 6.0)
    fed(detector, usual(60, accepted=5))
    assert detector.live() == LiveDrop(pytest.approx(2.1), pytest.approx(1.5), 66.0)
    fed(detector, usual(60))
    assert detector.live() is None


def test_a_past_drop_does_not_change_the_baseline():
    detector = dropped()
    fed(detector, usual(1000, accepted=4))
    fed(detector, usual(600))
    assert detector.state.baseline.length == pytest.approx(2.1, abs=1e-9)


def test_variances_do_not_compare_intervals_across_a_drop():
    detector = dropped()
    fed(detector, usual(600, accepted=13))
    assert detector.state.baseline.length > 2.1
    assert all(one.sum == pytest.approx(0, abs=1e-20) for one in detector.state.noise.lengths)


def test_the_baseline_has_a_memory_of_half_an_hour():
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, usual(5 * HOUR))
    fed(detector, usual(1800 + 20, accepted=12))
    assert detector.state.baseline.length == pytest.approx(2.2 - 0.1 / e, abs=1e-3)


def test_variances_end_at_sums_over_a_quarter_of_an_hour():
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, usual(3 * HOUR))
    assert [one.drafts for one in detector.variances] == [32 << power for power in range(8, -1, -1)]


def test_after_half_an_hour_of_a_drop_the_baseline_is_reset():
    detector = dropped()
    [(place, change)] = fed(detector, usual(int(FROZEN_SECONDS), accepted=4))
    assert place == FROZEN_SECONDS - 1
    assert change == DropChange(
        DropKind.SUDDEN,
        False,
        pytest.approx(2.1),
        pytest.approx(1.4),
        FROZEN_SECONDS + 5,
        learned_again=True,
    )
    assert detector.variances == []
    assert fed(detector, usual(61, accepted=4)) == []
    assert detector.state.baseline.length == pytest.approx(1.4)


def test_time_without_drafts_counts_towards_the_half_hour():
    detector = dropped()
    [(_, change)] = fed(detector, [Interval(10.0)] * 180)
    assert change.learned_again


def test_the_poll_interval_does_not_change_the_result():
    often, rarely = SuddenDropDetector(DropPolicy()), SuddenDropDetector(DropPolicy())
    fed(often, usual())
    fed(rarely, [Interval(15.0, 150, 165, 15 * (10 + 12.1))] * (HOUR // 15))
    assert rarely.state.baseline.mean == pytest.approx(often.state.baseline.mean)
    assert rarely._limits[0].threshold == pytest.approx(often._limits[0].threshold, rel=1e-3)
    assert [place for place, _ in fed(rarely, [second(60, 150, 15.0)])] == [1]


def test_an_increment_over_an_outage_counts_with_all_its_seconds():
    detector = SuddenDropDetector(DropPolicy())
    assert fed(detector, [*usual(), second(6600, 6000, 600.0)]) == []
    [(_, change)] = fed(detector, [second(2400, 6000, 600.0)])
    assert (change.length, change.seconds) == (pytest.approx(1.4), 600.0)


def test_different_requests_raise_the_threshold():
    alike, different = SuddenDropDetector(DropPolicy()), SuddenDropDetector(DropPolicy())
    chance = random.Random(1)
    fed(alike, usual())
    fed(different, [one for _ in range(HOUR // 10) for one in [second(chance.choice((8, 14)))] * 10])
    # Sums over much more than 100 drafts vary by 0.09 · 100 = 9 a draft.
    assert 6 < different._limits[0].threshold / alike._limits[0].threshold < 12


def test_a_variance_of_ten_minutes_is_doubled():
    chance = random.Random(1)
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, [second(chance.gauss(11, 6)) for _ in range(600)])
    detector.restore(detector.state)  # which updates the variances
    measured = detector.state.noise.variances(900 * 10)
    assert [one.value for one in detector.variances] == pytest.approx([2 * one.value for one in measured])


def test_the_variances_are_updated_after_a_thirtieth_of_the_history_and_at_least_once_a_minute():
    detector = SuddenDropDetector(DropPolicy())
    updates = {}
    for now in range(2 * HOUR):
        before = detector.variances
        fed(detector, usual(1))
        if detector.variances is not before:
            updates[now] = now
    moments = list(updates)
    assert {later - former for former, later in pairwise(moments) if former > HOUR} == {60}
    assert (
        max(later - former for former, later in pairwise(moments) if former < 600) <= 25
    )  # a thirtieth of 600 s, and an interval


def test_a_new_policy_applies_at_the_next_interval():
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, usual(HOUR))
    before = detector.variances
    detector.policy = DropPolicy(ratio=0.3)
    fed(detector, usual(5))
    assert detector.variances is not before


def test_one_missed_token_after_none_is_no_drop():
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, [Interval(1.0, 10, 30, 90)] * HOUR)
    assert fed(detector, [Interval(1.0, 10, 27, 81), *[Interval(1.0, 10, 30, 90)] * 100]) == []
    assert fed(detector, [Interval(1.0, 10, 10, 10)] * 10) != []


def test_a_baseline_near_1_cannot_drop():
    detector = SuddenDropDetector(DropPolicy())
    assert fed(detector, [Interval(1.0, 10, place % 2, place % 2) for place in range(HOUR)]) == []
    assert fed(detector, [Interval(1.0, 10)] * HOUR) == []


def test_another_policy_takes_effect_without_a_restart():
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, usual())
    detector.policy = DropPolicy(ratio=0.8)
    fed(detector, usual(10))
    assert fed(detector, usual(20, accepted=4)) == []


def test_a_longer_false_alarm_period_raises_the_threshold():
    weekly, yearly = (
        SuddenDropDetector(DropPolicy()),
        SuddenDropDetector(DropPolicy(false_alarm_period=52 * WEEK)),
    )
    for detector in (weekly, yearly):
        fed(detector, usual())
    difference = yearly._limits[0].threshold - weekly._limits[0].threshold
    assert difference == pytest.approx(log(52) / (2 * 0.1575), rel=0.01)


def test_the_baseline_survives_a_restart():
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, usual())
    other = carried(detector)
    assert other.variances == detector.variances
    assert [place for place, _ in fed(other, usual(100, accepted=4))] == [6]


def test_after_a_restart_the_sums_are_at_most_half_of_their_thresholds():
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, usual() + usual(5, accepted=4))
    other = carried(detector)
    assert other.state.alarm.sums[1].sum == other._limits[1].threshold / 2
    assert [place for place, _ in fed(other, usual(100, accepted=4))] == [3]


def test_a_drop_survives_a_restart():
    other = carried(dropped())
    assert other.state.alarm.dropped
    assert [place for place, _ in fed(other, usual(100))] == [25]


near_the_baseline = st.lists(
    st.builds(second, st.integers(9, 13), st.just(10), st.sampled_from((0.5, 1.0, 2.0))), max_size=150
)


@settings(max_examples=25, deadline=None)
@given(before=near_the_baseline, after=near_the_baseline)
def test_a_restart_in_quiet_times_changes_nothing(before, after):
    detector = SuddenDropDetector(DropPolicy())
    fed(detector, usual(200) + before)
    other = carried(detector)
    assert STATE.dump_python(other.state) == STATE.dump_python(detector.state)
    fall = usual(60, accepted=2)
    assert fed(other, after + fall) == fed(detector, after + fall)
    assert STATE.dump_python(other.state) == STATE.dump_python(detector.state)


anything = st.lists(
    st.builds(
        lambda seconds, drafts, share: Interval(
            seconds, drafts, int(share * drafts), int(share**2 * drafts) + 1
        ),
        st.floats(0.001, 1000),
        st.integers(0, 10**12),
        st.floats(0, 8),
    ),
    max_size=200,
)


@settings(max_examples=50, deadline=None)
@given(anything)
def test_changes_alternate_and_the_state_stays_small_for_any_increments(increments):
    detector = SuddenDropDetector(DropPolicy())
    changes = [change.dropped for _, change in fed(detector, increments)]
    assert changes == [place % 2 == 0 for place in range(len(changes))]
    assert all(one.sum >= 0 for one in detector.state.alarm.sums)
    assert len(json.dumps(STATE.dump_python(detector.state, mode="json", by_alias=True))) < 12_000
