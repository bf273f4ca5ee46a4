from __future__ import annotations

import gzip
import json
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.drops.drop import DropKind, DropStatus
from spec_decode_exporter.drops.variance import variance_of
from spec_decode_exporter.monitor.drops.drop_detector import DropDetector, squares
from spec_decode_exporter.scrape.page.sample import EngineName
from spec_decode_exporter.scrape.page.sample_reader import SampleReader
from spec_decode_exporter.window.history import History
from tests.fixtures.windows import increment

TRACES = Path(__file__).parents[2] / "traces"
WALL = 1_795_225_677.0
"""Unix time of the restart trace's beginning, see its README."""

SUDDEN, SLOW = DropKind.SUDDEN, DropKind.SLOW


def replayed(name, model, engine="0"):
    """Replay a trace as the exporter does; return the detector and the changes with their moments."""
    reader, history, detector, changes = SampleReader(), History(300.0), DropDetector(DropPolicy()), []
    with gzip.open(TRACES / f"{name}.jsonl.gz", "rt") as lines:
        rows = [row for row in map(json.loads, lines) if "page" in row]
    for row in rows:
        sample = finish(reader.read(row["page"].encode(), with_latencies=False)).samples[
            EngineName(model, engine)
        ]
        taken = history.observe(sample, row["t"], WALL + row["t"], 1.0)
        if taken.reset:
            detector.start_again()
        if taken.increment:
            changes += [(row["t"], change) for change in detector.observe(taken.increment)]
    return detector, changes


def polls(detector, seconds, accepted=11, drafts=10, begin=0):
    """Poll every second; return the changes by the end of their polls."""
    return [
        (end, change)
        for end in range(begin + 1, begin + seconds + 1)
        for change in detector.observe(
            increment(end - 1, end, (accepted,), drafts=drafts, accepted_tokens=accepted)
        )
    ]


@pytest.fixture
def detector():
    """An hour with a length of 2.1 at ten drafts a second."""
    detector = DropDetector(DropPolicy())
    assert polls(detector, 3600) == []
    return detector


def test_a_recorded_change_of_temperature_is_detected_within_5_seconds_and_its_end_within_19():
    # The first request with temperature 1 came at 108.4 s, the first with 0 again at 183.6 s.
    detector, changes = replayed("temperature", "tiny")
    assert [(moment, change.kind, change.dropped) for moment, change in changes] == [
        (113.062, SUDDEN, True),
        (202.015, SUDDEN, False),
    ]
    drop = changes[0][1]
    assert drop.baseline_length == pytest.approx(4.07, abs=0.01)
    assert drop.length == pytest.approx(1.73, abs=0.01)
    status = detector.status()
    assert status.dropped == {SUDDEN: False}
    assert status.drops == {SUDDEN: 1, SLOW: 0}
    assert status.baseline_length == pytest.approx(4.07, abs=0.03)
    assert abs(status.sigma) < 2


def test_a_recorded_restart_with_another_number_of_tokens_is_no_drop():
    detector, changes = replayed("restart_k3_k5", "tiny-llama")
    assert changes == []
    # K = 5: 16 728 of 6561 drafts; what is newer than 20 s is not in the baseline, and older weighs a little less.
    assert detector.status().baseline_length == pytest.approx(1 + 16_728 / 6561, abs=0.02)


@pytest.mark.parametrize("engine", ["0", "1"])
def test_a_recorded_engine_without_acceptance_does_not_drop(engine):
    detector, changes = replayed("dp2_multiapi", "tiny-llama", engine)
    assert changes == []
    assert detector.status().drops == {SUDDEN: 0, SLOW: 0}


def test_without_enough_drafts_the_status_is_empty():
    detector = DropDetector(DropPolicy())
    assert detector.status() == DropStatus(None, None, None, {}, {SUDDEN: 0, SLOW: 0})
    polls(detector, 59)
    assert detector.status() == DropStatus()


def test_sigma_counts_the_standard_errors_below_the_baseline(detector):
    polls(detector, 10, accepted=10, begin=3600)
    sudden = detector._sudden
    # Four intervals are held and none is incomplete: 10 s with 11 and 10 s with 10 tokens a second.
    recent = 1 + (10 * 11 + 10 * 10) / 200
    known = sudden.state.baseline.effective_drafts
    # Positions all at the first: E A² = E A = 1.1 is impossible, so the least variance holds, 0.25.
    assert variance_of(200, sudden.variances) == 0.25
    status = detector.status()
    assert status.baseline_length == pytest.approx(2.1)
    assert status.sigma == pytest.approx((2.1 - recent) / sqrt(0.25 / 200 + 0.25 / known), rel=1e-3)
    assert status.baseline_stddev == pytest.approx(sqrt(0.25 / 300 + 0.25 / known), rel=1e-3)


def test_sigma_is_negative_above_the_baseline(detector):
    polls(detector, 20, accepted=12, begin=3600)
    assert detector.status().sigma < -2


def test_sigma_has_no_value_in_silence_and_the_baseline_stays(detector):
    polls(detector, 40, drafts=0, accepted=0, begin=3600)
    status = detector.status()
    assert status.sigma is None
    assert status.baseline_length == pytest.approx(2.1)


def test_both_kinds_are_detected_and_counted():
    detector = DropDetector(DropPolicy())
    polls(detector, 4 * 3600)
    assert detector.status().dropped == {SUDDEN: False, SLOW: False}
    found = polls(detector, 1800, accepted=4)
    assert [(change.kind, change.dropped) for _, change in found] == [
        (SUDDEN, True),
        (SLOW, True),
    ]
    assert detector.status().dropped == {SUDDEN: True, SLOW: True}
    assert [change.learned_again for _, change in polls(detector, 10, accepted=4)] == [True]
    status = detector.status()
    assert status.dropped == {SLOW: True}
    assert status.drops == {SUDDEN: 1, SLOW: 1}
    assert status.baseline_length is None


def test_starting_again_resets_the_baseline_and_the_drop_but_not_the_count(detector):
    polls(detector, 10, accepted=4)
    assert detector.status().dropped[SUDDEN]
    detector.start_again()
    assert detector.status() == DropStatus(drops={SUDDEN: 1, SLOW: 0})
    assert detector.saved() == DropDetector(DropPolicy()).saved()
    assert polls(detector, 3600, accepted=4) == []


def test_another_policy_applies_to_both_kinds(detector):
    policy = DropPolicy(ratio=0.3)
    detector.policy = policy
    assert detector.policy is detector._sudden.policy is detector._slow.policy is policy


def test_the_saved_state_is_json_and_a_restored_detector_continues(detector):
    saved = json.loads(json.dumps(detector.saved()))
    other = DropDetector(DropPolicy())
    assert other.restore(saved)
    assert other.status() == detector.status()
    assert other.saved() == detector.saved()
    assert polls(other, 100, accepted=4) == polls(detector, 100, accepted=4) != []


def test_counts_of_drops_are_not_restored(detector):
    polls(detector, 10, accepted=4)
    other = DropDetector(DropPolicy())
    other.restore(detector.saved())
    assert other.status().dropped[SUDDEN]
    assert other.status().drops == {SUDDEN: 0, SLOW: 0}


def _without(saved, *path):
    for key in path[:-1]:
        saved = saved[key]
    del saved[path[-1]]


BROKEN = {
    "a part is missing": lambda saved: _without(saved, "slow"),
    "another shape": lambda saved: saved["sudden"]["stretches"].update(filling=3),
    "a sum is missing": lambda saved: saved["sudden"].update(alarm={"sums": [{}]}),
    "a length is missing": lambda saved: _without(saved, "sudden", "noise", "lengths", 0),
    "not a number": lambda saved: saved["sudden"]["baseline"].update(drafts="many"),
    "not finite": lambda saved: saved["sudden"]["baseline"].update(drafts=float("nan")),
    "negative": lambda saved: saved["sudden"]["baseline"].update(drafts=-1.0),
    "more than any engine drafts": lambda saved: saved["sudden"]["baseline"].update(squares=1e300),
    "impossible": lambda saved: saved["sudden"]["baseline"].update(weighted_drafts=0.0),
}


@pytest.mark.parametrize("mistake", BROKEN)
def test_an_invalid_state_changes_nothing(detector, mistake):
    saved, before = detector.saved(), detector.status()
    BROKEN[mistake](saved)
    assert not detector.restore(saved)
    assert detector.status() == before


def test_a_state_that_proves_impossible_later_is_reset():
    detector = DropDetector(DropPolicy())
    polls(detector, 40)
    saved = detector.saved()
    in_no_time = {"seconds": 0.0, "drafts": 1000.0, "accepted": 1100.0, "squares": 1300.0, "end": 1.0}
    saved["sudden"]["baseline"] = {}
    saved["sudden"]["stretches"].update(elapsed=1000.0, drafted=1000.0, held=[in_no_time])
    assert detector.restore(saved)
    assert polls(detector, 3600) == []
    assert detector.status().baseline_length == pytest.approx(2.1)


def test_an_empty_state_is_not_restored():
    assert not DropDetector(DropPolicy()).restore({})


counts = st.integers(0, 5)


@given(st.lists(counts, max_size=50))
def test_squares_follow_from_the_positions(accepted):
    positions = [sum(count > place for count in accepted) for place in range(5)]
    assert squares(sum(accepted), positions) == sum(count**2 for count in accepted)
    assert squares(sum(accepted), ()) <= sum(count**2 for count in accepted)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.01, 900), st.integers(0, 2**62), st.lists(st.integers(0, 2**62), max_size=8)),
        max_size=100,
    )
)
def test_any_counts_allow_a_status_and_a_saved_state(increments):
    detector, now = DropDetector(DropPolicy()), 0.0
    for seconds, drafts, positions in increments:
        counts = {"drafts": drafts, "accepted_tokens": sum(positions)}
        detector.observe(increment(now, now + seconds, positions, **counts))
        now += seconds
        detector.status()
    other = DropDetector(DropPolicy())
    assert other.restore(json.loads(json.dumps(detector.saved())))
    restored, before = other.status().dropped, detector.status().dropped
    # A detector updates its thresholds at intervals, and on a restore: then it may know more, or less.
    known = restored.keys() & before.keys()
    assert {kind: restored[kind] for kind in known} == {kind: before[kind] for kind in known}
