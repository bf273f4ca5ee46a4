from __future__ import annotations

import gzip
import json
from math import sqrt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_decode_exporter.analysis.drops.drop import DropKind
from spec_decode_exporter.analysis.drops.noise import variance_of
from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.monitor.drops.drop_watch import DropDetector, DropStatus, squares
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.scrape.page.sample import EngineName
from spec_decode_exporter.scrape.page.sample_reader import SampleReader
from spec_decode_exporter.window.engine_history import EngineHistory

TRACES = Path(__file__).parents[2] / "traces"
WALL = 1_795_225_677.0
"""Unix time of the restart trace's beginning, see its README."""

SUDDEN, SLOW = DropKind.SUDDEN, DropKind.SLOW


def replayed(name, model, engine="0"):
    """Replay a trace as the exporter does; return the watch, and the changes by their moments."""
    reader, history, watch, changes = SampleReader(), EngineHistory(300.0), DropDetector(DropPolicy()), []
    with gzip.open(TRACES / f"{name}.jsonl.gz", "rt") as lines:
        rows = [row for row in map(json.loads, lines) if "page" in row]
    for row in rows:
        sample = finish(reader.read(row["page"].encode(), with_latencies=False)).samples[
            EngineName(model, engine)
        ]
        taken = history.observe(sample, row["t"], WALL + row["t"], 1.0)
        if taken.reset:
            watch.start_again()
        if one := taken.increment:
            drafts, accepted = one.counters[Counter.DRAFTS], one.counters[Counter.ACCEPTED_TOKENS]
            found = watch.observe(one.begin, one.end, drafts, accepted, one.positions)
            changes += [(row["t"], change) for change in found]
    return watch, changes


def polls(watch, seconds, accepted=11, drafts=10, begin=0):
    """Poll every second; return the changes by the end of their polls."""
    return [
        (end, change)
        for end in range(begin + 1, begin + seconds + 1)
        for change in watch.observe(end - 1, end, drafts, accepted, (accepted,))
    ]


@pytest.fixture
def watch():
    """An hour with a length of 2.1 at ten drafts a second."""
    watch = DropDetector(DropPolicy())
    assert polls(watch, 3600) == []
    return watch


def test_a_recorded_change_of_temperature_is_found_in_5_seconds_and_its_end_in_19():
    # The first request with temperature 1 came at 108.4 s, the first with 0 again at 183.6 s.
    watch, changes = replayed("temperature", "tiny")
    assert [(moment, change.kind, change.dropped) for moment, change in changes] == [
        (113.062, SUDDEN, True),
        (202.015, SUDDEN, False),
    ]
    drop = changes[0][1]
    assert drop.baseline_length == pytest.approx(4.07, abs=0.01)
    assert drop.length == pytest.approx(1.73, abs=0.01)
    status = watch.status()
    assert status.dropped == {SUDDEN: False}
    assert status.drops == {SUDDEN: 1, SLOW: 0}
    assert status.baseline_length == pytest.approx(4.07, abs=0.03)
    assert abs(status.sigma) < 2


def test_a_recorded_restart_with_another_number_of_tokens_is_no_drop():
    watch, changes = replayed("restart_k3_k5", "tiny-llama")
    assert changes == []
    # K = 5: 16 728 of 6561 drafts; what is newer than 20 s is not in the baseline, and older weighs a little less.
    assert watch.status().baseline_length == pytest.approx(1 + 16_728 / 6561, abs=0.02)


@pytest.mark.parametrize("engine", ["0", "1"])
def test_a_recorded_engine_without_acceptance_does_not_drop(engine):
    watch, changes = replayed("dp2_multiapi", "tiny-llama", engine)
    assert changes == []
    assert watch.status().drops == {SUDDEN: 0, SLOW: 0}


def test_before_anything_is_known_there_is_nothing_to_say():
    watch = DropDetector(DropPolicy())
    assert watch.status() == DropStatus(None, None, None, {}, {SUDDEN: 0, SLOW: 0})
    polls(watch, 59)
    assert watch.status() == DropStatus()


def test_sigma_is_how_many_standard_errors_the_last_seconds_are_below_the_baseline(watch):
    polls(watch, 10, accepted=10, begin=3600)
    sudden = watch._sudden
    # Four stretches are held back and none is under way: 10 s with 11 and 10 s with 10 tokens a second.
    recent = 1 + (10 * 11 + 10 * 10) / 200
    known = sudden.state.baseline.effective_drafts
    # Positions all at the first: E A² = E A = 1.1 is impossible, so the least variance holds, 0.25.
    assert variance_of(200, sudden.variances) == 0.25
    status = watch.status()
    assert status.baseline_length == pytest.approx(2.1)
    assert status.sigma == pytest.approx((2.1 - recent) / sqrt(0.25 / 200 + 0.25 / known), rel=1e-3)
    assert status.baseline_stddev == pytest.approx(sqrt(0.25 / 300 + 0.25 / known), rel=1e-3)


def test_sigma_is_negative_above_the_baseline(watch):
    polls(watch, 20, accepted=12, begin=3600)
    assert watch.status().sigma < -2


def test_sigma_has_no_value_in_silence_and_the_baseline_stays(watch):
    polls(watch, 40, drafts=0, accepted=0, begin=3600)
    status = watch.status()
    assert status.sigma is None
    assert status.baseline_length == pytest.approx(2.1)


def test_both_kinds_are_watched_and_counted():
    watch = DropDetector(DropPolicy())
    polls(watch, 4 * 3600)
    assert watch.status().dropped == {SUDDEN: False, SLOW: False}
    found = polls(watch, 1800, accepted=4)
    assert [(change.kind, change.dropped) for _, change in found] == [
        (SUDDEN, True),
        (SLOW, True),
    ]
    assert watch.status().dropped == {SUDDEN: True, SLOW: True}
    assert [change.learned_again for _, change in polls(watch, 10, accepted=4)] == [True]
    status = watch.status()
    assert status.dropped == {SLOW: True}
    assert status.drops == {SUDDEN: 1, SLOW: 1}
    assert status.baseline_length is None


def test_starting_again_forgets_the_baseline_and_the_drop_but_not_how_many_there_were(watch):
    polls(watch, 10, accepted=4)
    assert watch.status().dropped[SUDDEN]
    watch.start_again()
    assert watch.status() == DropStatus(drops={SUDDEN: 1, SLOW: 0})
    assert watch.saved() == DropDetector(DropPolicy()).saved()
    assert polls(watch, 3600, accepted=4) == []


def test_another_policy_is_for_both_kinds(watch):
    policy = DropPolicy(ratio=0.3)
    watch.policy = policy
    assert watch.policy is watch._sudden.policy is watch._slow.policy is policy


def test_what_is_saved_is_json_and_what_is_restored_goes_on(watch):
    saved = json.loads(json.dumps(watch.saved()))
    other = DropDetector(DropPolicy())
    assert other.restore(saved)
    assert other.status() == watch.status()
    assert other.saved() == watch.saved()
    assert polls(other, 100, accepted=4) == polls(watch, 100, accepted=4) != []


def test_what_was_counted_is_this_process_own(watch):
    polls(watch, 10, accepted=4)
    other = DropDetector(DropPolicy())
    other.restore(watch.saved())
    assert other.status().dropped[SUDDEN]
    assert other.status().drops == {SUDDEN: 0, SLOW: 0}


def _without(saved, *path):
    for key in path[:-1]:
        saved = saved[key]
    del saved[path[-1]]


BROKEN = {
    "a part is missing": lambda saved: _without(saved, "slow"),
    "another shape": lambda saved: saved["sudden"]["stretches"].update(filling=3),
    "a sum is missing": lambda saved: _without(saved, "sudden", "alarm", "sums", 0),
    "a length is missing": lambda saved: _without(saved, "sudden", "noise", "lengths", 0),
    "not a number": lambda saved: saved["sudden"]["baseline"].update(drafts="many"),
    "not finite": lambda saved: saved["sudden"]["baseline"].update(drafts=float("nan")),
    "negative": lambda saved: saved["sudden"]["baseline"].update(drafts=-1.0),
    "more than any engine drafts": lambda saved: saved["sudden"]["baseline"].update(squares=1e300),
    "impossible": lambda saved: saved["sudden"]["baseline"].update(weighted_drafts=0.0),
}


@pytest.mark.parametrize("mistake", BROKEN)
def test_what_is_not_understood_changes_nothing(watch, mistake):
    saved, before = watch.saved(), watch.status()
    BROKEN[mistake](saved)
    assert not watch.restore(saved)
    assert watch.status() == before


def test_what_turns_out_to_be_impossible_later_is_forgotten_then():
    watch = DropDetector(DropPolicy())
    polls(watch, 40)
    saved = watch.saved()
    in_no_time = {"seconds": 0.0, "drafts": 1000.0, "accepted": 1100.0, "squares": 1300.0, "end": 1.0}
    saved["sudden"]["baseline"] = {}
    saved["sudden"]["stretches"].update(elapsed=1000.0, drafted=1000.0, held=[in_no_time])
    assert watch.restore(saved)
    assert polls(watch, 3600) == []
    assert watch.status().baseline_length == pytest.approx(2.1)


def test_nothing_saved_is_nothing_restored():
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
def test_whatever_is_counted_the_status_can_be_told_and_saved(increments):
    watch, now = DropDetector(DropPolicy()), 0.0
    for seconds, drafts, positions in increments:
        watch.observe(now, now + seconds, drafts, sum(positions), positions)
        now += seconds
        watch.status()
    other = DropDetector(DropPolicy())
    assert other.restore(json.loads(json.dumps(watch.saved())))
    assert other.status().dropped == watch.status().dropped
