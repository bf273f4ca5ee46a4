"""Sudden drops: each increment against the last half hour."""

import random
from copy import deepcopy
from math import e, log, sqrt

import pytest

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.detector import SUDDEN, Detector
from spec_decode_exporter.drops.sums import Drop, DropKind, Sums, Transition
from tests.unit.drops.conftest import fed, restarted, thresholds

HOUR = 3600
WEEK = 7 * 86_400
BEGAN, ENDED, LEARNED_AGAIN = Transition.BEGAN, Transition.ENDED, Transition.LEARNED_AGAIN


def second(accepted=11):
    """An increment of ten drafts that vary by 1 if they are independent; usually their length is 2.1."""
    return Sums(1.0, 10, accepted, 10 + accepted**2 / 10)


SILENCE = Sums(1.0)


@pytest.fixture(name="detector")
def detector_fixture():
    """A detector that knows an hour with a length of 2.1."""
    detector = Detector(SUDDEN, DropPolicy())
    assert fed(detector, [second()] * HOUR) == []
    return detector


@pytest.fixture(name="dropped")
def dropped_fixture(detector):
    """The same after a drop to 1.4 that was just found."""
    [(_, drop)] = fed(detector, [second(4)] * 6)
    assert drop.transition is BEGAN
    return detector


def test_a_fall_from_2_1_to_1_4_at_ten_drafts_a_second_is_detected_in_six_seconds(detector):
    # A week has 6 048 000 drafts. The second sum, κ = 15 % of 2.1 = 0.315:
    # h = 1/(2 · 0.315) · ln(1 + 2 · 0.315² · 6 048 000) ≈ 22.2 tokens, and a second brings 10 · (1.1 - 0.315) - 4
    # = 3.85, less what the baseline is not known exactly: the sixth passes it.
    # V is 1, that of independent drafts, times 1: an hour's drafts are all alike.
    assert log(1 + 2 * 0.315**2 * 10 * WEEK) / 0.63 == pytest.approx(22.2, abs=0.05)
    drop = Drop(DropKind.SUDDEN, BEGAN, pytest.approx(2.1), pytest.approx(1.4), 6.0, 6.0)
    assert fed(detector, [second(4)] * 100) == [(6, drop)]


def test_a_fall_by_15_per_cent_is_detected_by_the_first_sum(detector):
    # κ = 0.1575, h = 1/0.315 · ln(1 + 2 · 0.1575² · 6 048 000) ≈ 40.0. Of 100 drafts, 110 - 31.5 tokens remain, and
    # 9.425 a second are expected where 7.85 come: 25.4 seconds, and the baseline's own error.
    error = sqrt(1 / detector.state.baseline.effective)
    seconds = log(1 + 2 * 0.1575**2 * 10 * WEEK) / 0.315 / (10 * (0.1575 - error))
    [(place, _)] = fed(detector, [second(7.85)] * 60)
    assert seconds < place <= seconds + 1
    assert 25 < place < 29


@pytest.mark.parametrize("part", [[second(9.5)] * 120, [SILENCE] * (3 * HOUR)])
def test_neither_half_of_15_per_cent_nor_silence_is_a_drop(part, detector):
    assert fed(detector, part) == []


def test_detection_begins_after_60_seconds_with_drafts():
    for seconds, knows in ((29, None), (31, False)):
        detector = Detector(SUDDEN, DropPolicy())
        assert fed(detector, [second()] * 30 + [SILENCE] * 100 + [second()] * seconds) == []
        assert detector.dropped is knows


def test_the_baseline_is_frozen_during_a_drop_and_excludes_it_later(dropped):
    baseline, noise = deepcopy(dropped.state.baseline), deepcopy(dropped.state.noise)
    assert fed(dropped, [second(4)] * 1000) == []
    assert (dropped.state.baseline, dropped.state.noise) == (baseline, noise)
    fed(dropped, [second()] * 600)
    assert dropped.state.baseline.length == pytest.approx(2.1, abs=1e-9)


def test_a_drop_ends_when_the_mirrored_sum_exceeds_its_threshold(dropped):
    # It rises by 10 · (1.1 - 0.9425) = 1.575 a second, and by the baseline's error, up to the same 40.0.
    fed(dropped, [second(4)] * 100)
    end = Drop(DropKind.SUDDEN, ENDED, pytest.approx(2.1), pytest.approx(2.1), 25.0, 25.0)
    assert fed(dropped, [second()] * 100) == [(25, end)]
    assert fed(dropped, [second()] * 100) == []


def noisy(seconds, accepted, chance):
    """Seconds whose accepted tokens differ much more than independent drafts."""
    return [second(max(0.0, accepted + chance.gauss(0, 4))) for _ in range(seconds)]


def test_a_drop_ends_after_30_seconds_of_enough_normal_drafts():
    # Sums over many drafts vary, so that the mirrored sum alone would need more time.
    chance, detector = random.Random(4), Detector(SUDDEN, DropPolicy(false_alarm_period=52 * WEEK))
    fed(detector, noisy(HOUR, 11, chance))
    by_sum = thresholds(detector)[0] / (10 * 0.1575)
    assert [drop.transition for _, drop in fed(detector, noisy(60, 4, chance))] == [BEGAN]
    [(place, drop)] = fed(detector, noisy(int(by_sum), 11, chance))
    assert drop.transition is ENDED
    assert 30 <= place <= 50 < by_sum
    assert drop.age >= 30


def test_the_baseline_has_a_memory_of_half_an_hour(detector):
    fed(detector, [second()] * (4 * HOUR))
    fed(detector, [second(12)] * (1800 + 20))
    assert detector.state.baseline.length == pytest.approx(2.2 - 0.1 / e, abs=1e-3)
    # Sums over a quarter of an hour are the longest ones whose variance counts.
    assert [each.length for each in detector.variances] == [32 << power for power in range(8, -1, -1)]


def test_after_half_an_hour_of_a_drop_the_baseline_is_reset(dropped):
    again = Drop(DropKind.SUDDEN, LEARNED_AGAIN, pytest.approx(2.1), pytest.approx(1.4), 1805.0)
    assert fed(dropped, [second(4)] * 1800) == [(1799, again)]
    assert dropped.dropped is None
    assert fed(dropped, [second(4)] * 61) == []
    assert dropped.dropped is False
    assert dropped.state.baseline.length == pytest.approx(1.4)


def test_baseline_and_drop_survive_a_restart(detector):
    other = restarted(detector)
    assert other.variances == detector.variances
    assert [place for place, _ in fed(other, [second(4)] * 6)] == [6]
    third = restarted(other)
    assert third.dropped
    assert [place for place, _ in fed(third, [second()] * 100)] == [25]
