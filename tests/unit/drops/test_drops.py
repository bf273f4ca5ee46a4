"""All detectors of an engine: status, and the persisted state."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from spec_decode_exporter.config.policy import DropPolicy
from spec_decode_exporter.drops.detector import DecodeSteps
from spec_decode_exporter.drops.drops import Drops, DropState, drafts_of
from spec_decode_exporter.drops.sums import DropKind, DropStatus, Sums, Transition
from tests.fakes.windows import increment
from tests.paths import DATA
from tests.unit.drops.conftest import fed, restarted

STATE = TypeAdapter(DropState)
SUDDEN, DRAFTING = DropKind.SUDDEN, DropKind.DRAFTING
BEGAN, ENDED, LEARNED_AGAIN = Transition.BEGAN, Transition.ENDED, Transition.LEARNED_AGAIN


def seconds(number, accepted=11, drafts=10):
    """Polls each second, with all accepted tokens at the first position."""
    return [Sums(1.0, drafts, accepted, accepted)] * number


@pytest.fixture(name="drops")
def drops_fixture():
    """An hour with a length of 2.1 at ten drafts a second."""
    drops = Drops(DropPolicy())
    assert fed(drops, seconds(3600)) == []
    return drops


def test_sigma_counts_the_standard_errors_below_the_baseline(drops):
    fed(drops, seconds(10, accepted=10))
    # Four intervals are held and none is incomplete: 10 s with 11 and 10 s with 10 tokens a second.
    recent, known = 1 + (10 * 11 + 10 * 10) / 200, drops.state.sudden.baseline.effective
    # Positions all at the first: E A² = E A = 1.1 is impossible, so the least variance holds, 0.25.
    status = drops.status()
    assert status.baseline_acceptance_length_tokens == pytest.approx(2.1)
    assert status.sigma == pytest.approx((2.1 - recent) / sqrt(0.25 / 200 + 0.25 / known), rel=1e-3)
    assert status.baseline_acceptance_length_tokens_stddev == pytest.approx(
        sqrt(0.25 / 300 + 0.25 / known), rel=1e-3
    )
    fed(drops, seconds(20, accepted=12))
    assert drops.status().sigma < -2
    fed(drops, seconds(40, drafts=0, accepted=0))
    assert drops.status().sigma is None


@pytest.mark.parametrize(
    ("loads", "accepted", "expected"),
    [
        ((20, 60), 6, 0),
        ((20, 25), 6, 1),
        ((20, 29), 6, 1),
        ((None, None), 6, 1),
        ((1, 7), 6, 1),
        ((60, 20), 11, 0),
    ],
)
def test_an_engine_that_verifies_fewer_drafts_at_a_higher_load_is_compared_at_like_loads(
    loads, accepted, expected
):
    drops, (before, after) = Drops(DropPolicy()), loads
    found = [drops.observe(each, load=before) for each in seconds(3600)]
    found += [drops.observe(each, load=after) for each in seconds(600, accepted)]
    assert sum(map(len, found)) == expected
    found = [drops.observe(each, load=after) for each in seconds(60, accepted=1)]
    assert any(found) is (not expected)


def test_a_burst_is_no_other_load():
    drops = Drops(DropPolicy())
    found = [drops.observe(each, load=20) for each in seconds(3600)]
    found += [drops.observe(each, load=60) for each in seconds(3, accepted=0)]
    found += [drops.observe(each, load=20) for each in seconds(60, accepted=4)]
    assert [(drop.kind, drop.transition) for each in found for drop in each] == [(SUDDEN, BEGAN)]


def test_the_first_load_after_a_restart_is_like_that_of_the_restored_baseline():
    drops = Drops(DropPolicy())
    for each in seconds(3600):
        drops.observe(each, load=20)
    other = restarted(drops)
    assert [other.observe(each, load=20) for each in seconds(60, accepted=1)] != [()] * 60


def test_a_restored_detector_continues_without_the_counts(drops):
    fed(drops, seconds(10, accepted=4))
    other = restarted(drops)
    assert other.status().total == {SUDDEN: 0}
    assert other.state == drops.state
    assert other.status().dropped == drops.status().dropped == {SUDDEN: True}
    assert fed(other, seconds(100)) == fed(drops, seconds(100)) != []


def test_a_restored_sum_needs_half_of_its_threshold_again():
    drops = Drops(DropPolicy())
    for each in seconds(3600):
        drops.observe(each, load=20)
    for cusum in drops.state.sudden.cusums:
        cusum.sum = 1e20
    other = restarted(drops)
    found = [other.observe(each, load=20) for each in seconds(60, accepted=8)]
    assert not found[0]
    assert any(found)


def test_a_state_of_an_exporter_with_slow_drops_goes_on_without_them():
    """Two and a half hours of an n-gram server with 100 drafts in 200 steps each 10 s, and 3 tokens a draft."""
    drops = Drops(DropPolicy())
    drops.restore(STATE.validate_json((DATA / "states" / "drops_with_slow.json").read_bytes()))
    assert drops.status().baseline_acceptance_length_tokens == pytest.approx(3.05, abs=0.01)
    noise = drops.state.sudden.noise.lengths
    assert [(each.last_units, each.last_count) for each in noise[:2]] == [(100, 210), (100, 210)]
    assert (noise[3].units, noise[3].count) == (200, 370)
    steps = DecodeSteps(200, searches=True, requests=3)
    found = [drops.observe(Sums(10.0, 100, 200, 400), steps) for _ in range(60)]
    found += [drops.observe(Sums(10.0), steps) for _ in range(30)]
    assert [(drop.kind, drop.transition) for each in found for drop in each] == [(DRAFTING, BEGAN)]


INVALID = {
    "too many sums": ["sudden", "cusums", [{}] * 3],
    "too many intervals": ["sudden", "time", "held", [{}] * 1000],
    "not finite": ["sudden", "baseline", "units", float("nan")],
    "negative": ["sudden", "baseline", "units", -1.0],
    "an integer that no float holds": ["sudden", "baseline", "squares", 10**400],
    "more than any engine counts": ["sudden", "baseline", "squares", 1e99],
    "longer than any exporter runs": ["sudden", "time", "elapsed", 1e12],
}


@pytest.mark.parametrize("mistake", INVALID)
def test_a_state_with_an_impossible_number_or_length_is_invalid(drops, mistake):
    saved = STATE.dump_python(drops.state, mode="json")
    *path, field, value = INVALID[mistake]
    part = saved
    for key in path:
        part = part[key]
    part[field] = value
    with pytest.raises(ValidationError):
        STATE.validate_python(saved)


CONTRADICTIONS = {
    "units without weights": lambda state: setattr(state.sudden.baseline, "squared_weights", 0.0),
    "units in no time": lambda state: setattr(state.sudden.baseline, "seconds", 0.0),
    "a drop that begins later": lambda state: setattr(state.drafting, "found", 9e9),
    "a drop without units": lambda state: setattr(state.sudden, "found", state.sudden.time.elapsed),
    "a change that comes later": lambda state: setattr(state.sudden, "changed", 9e9),
    "a sum that begins later": lambda state: setattr(state.drafting.cusums[0], "began", 9e9),
    "an interval that ends later": lambda state: setattr(state.sudden.time.held[0], "end", 9e9),
}


@pytest.mark.parametrize("mistake", CONTRADICTIONS)
def test_a_state_that_contradicts_itself_starts_again(drops, mistake):
    CONTRADICTIONS[mistake](drops.state)
    other = Drops(DropPolicy())
    other.restore(drops.state)
    assert other.state == DropState()
    assert other.status() == DropStatus()


@given(st.lists(st.integers(0, 5), max_size=50))
def test_squares_follow_from_the_positions(accepted):
    positions = [sum(count > place for count in accepted) for place in range(5)]
    counts = {"drafts": len(accepted), "accepted_tokens": sum(accepted)}
    exact = drafts_of(increment(1.0, 3.0, positions, **counts))
    assert (exact.seconds, exact.units, exact.accepted) == (2.0, len(accepted), sum(accepted))
    assert exact.squares == sum(count**2 for count in accepted)
    assert drafts_of(increment(**counts)).squares == sum(accepted) <= exact.squares


def test_a_part_of_one_unit_is_none_since_a_mean_over_it_is_infinite(drops):
    saved = STATE.dump_python(drops.state, mode="json")
    saved["sudden"]["baseline"]["units"] = 5e-324
    assert STATE.validate_python(saved).sudden.baseline.units == 0


@pytest.mark.parametrize(("before", "now", "kinds"), [(0.8, 0.1, {SUDDEN, DRAFTING}), (0.1, 0.8, set())])
def test_another_policy_applies_to_all_kinds(before, now, kinds):
    drops, steps = Drops(DropPolicy(ratio=before)), DecodeSteps(20, searches=True)
    found = [drops.observe(each, steps) for each in seconds(4 * 3600)]
    drops.use(DropPolicy(ratio=now))
    found += [drops.observe(each, steps) for each in seconds(10)]
    assert not any(found)
    found = [drops.observe(each, steps) for each in seconds(3600, 2, 5)]
    assert {drop.kind for each in found for drop in each} == kinds
