"""Sums and means over slots."""

from dataclasses import replace

import pytest

from spec_decode_exporter.core.event import Event
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.history.history_result import (
    best_tokens,
    changes,
    drops,
    mean_speedup,
    positions,
    summary,
    totals,
)
from spec_decode_exporter.history.history_slots import SlotOutcome, SlotResult

SLOT = SlotResult(
    begin=0.0,
    end=900.0,
    seconds=900.0,
    outcome=SlotOutcome.PAID,
    tokens=2,
    era=0,
    process=0,
    generated=1000,
    decode_seconds=100.0,
    drafts=400,
    draft_tokens=800,
    accepted_tokens=600,
    positions=(350, 250),
    running_requests=8.0,
    first_token_seconds=0.1,
    step_seconds=0.02,
    speedup=Estimate(2.0, 1.5, 2.5, 0.1),
    acceptance_length=None,
    cost_source=None,
    speedups={0: 1.0, 1: 1.6, 2: 2.0},
)


def hurt(**values):
    slower = {"outcome": SlotOutcome.HURT, "speedup": Estimate(0.8, 0.7, 0.9, 0.1), "decode_seconds": 300.0}
    return replace(SLOT, **{**slower, "speedups": {0: 1.0, 1: 0.9, 2: 0.8}, **values})


def test_a_mean_speed_up_is_weighted_by_decode_time():
    found = mean_speedup([SLOT, hurt()])
    assert (found.value, found.lower, found.upper) == pytest.approx((1.1, 0.9, 1.3))


def test_saved_time_is_that_beyond_the_time_it_took():
    for slot, saved in ((SLOT, (100.0, 50.0, 150.0)), (hurt(), (-60.0, -90.0, -30.0))):
        its = summary([slot]).saved_decode_seconds
        assert (its.value, its.lower, its.upper) == pytest.approx(saved)


def test_shares_are_of_the_time_and_tokens_with_drafts():
    plain = replace(SLOT, outcome=SlotOutcome.PLAIN, speedup=None, drafts=0)
    found = summary([SLOT, hurt(seconds=300.0, generated=3000), plain])
    assert found.share_of(SlotOutcome.PAID) == pytest.approx(0.75)
    assert found.share_of(SlotOutcome.PAID, "tokens") == pytest.approx(0.25)
    assert found.share_of(SlotOutcome.UNCLEAR) == 0
    assert found.shares[SlotOutcome.PLAIN].seconds == 900
    assert (summary([]).share_of(SlotOutcome.PAID), summary([]).speedup) == (None, None)


def test_load_bands_double():
    slots = [replace(SLOT, running_requests=load) for load in (0.2, 1.0, 2.0, 3.9, 4.0, None)]
    bands = totals(slots).by_running_requests
    seconds = {name: found.drafting.seconds / 900 for name, found in bands.items()}
    assert seconds == {"1": 2, "2 to 3": 2, "4 to 7": 1}


def test_the_best_depth_is_that_with_the_least_time_over_all_slots():
    found = best_tokens([SLOT, hurt()])
    # 2.0*100 + 0.8*300 = 440 s without speculation; 100 + 300 at two tokens.
    assert found.speedups == pytest.approx({0: 1.0, 1: 440 / (200 / 1.6 + 240 / 0.9), 2: 1.1})
    assert found.best == 1


@pytest.mark.parametrize(
    ("speedups", "best"),
    [
        pytest.param({0: 1.0, 1: 0.9, 2: 0.8}, 0, id="no speculation where every depth is slower"),
        pytest.param({0: 1.0, 2: 1.94, 4: 2.0}, 2, id="fewer tokens that lose 3 percent"),
        pytest.param({0: 1.0, 2: 1.93, 4: 2.0}, 4, id="more tokens where fewer lose more"),
    ],
)
def test_the_best_is(speedups, best):
    tokens = max(speedups)
    slot = replace(SLOT, tokens=tokens, speedups=speedups, speedup=Estimate(speedups[tokens], 0.5, 2.5, 0.1))
    assert best_tokens([slot]).best == best


def test_positions_are_shares_of_all_drafts():
    assert positions([SLOT, SLOT]) == pytest.approx([0.875, 0.625])


PLAIN = replace(SLOT, outcome=SlotOutcome.PLAIN, tokens=0, speedup=None, drafts=0, accepted_tokens=0)


@pytest.mark.parametrize(
    ("before", "tokens", "speedup", "name", "differs"),
    [
        (SLOT, 4, Estimate(3.0, 2.6, 3.4, 0.1), "4 draft tokens instead of 2", True),
        (SLOT, 4, Estimate(2.6, 2.4, 2.8, 0.1), "4 draft tokens instead of 2", False),
        (PLAIN, 2, SLOT.speedup, "speculation enabled with 2 draft tokens", True),
    ],
    ids=["beyond the bounds", "within the bounds", "enabled: compared with a speed-up of one"],
)
def test_a_change_compares_both_sides(before, tokens, speedup, name, differs):
    after = replace(SLOT, begin=900.0, end=1800.0, process=1, tokens=tokens, speedup=speedup)
    (change,) = changes([before, after])
    assert (change.name, change.speedup_differs) == (name, differs)


def test_a_change_compares_a_day_on_each_side():
    days = [replace(SLOT, begin=86400.0 * day, end=86400.0 * day + 900, process=day // 3) for day in range(6)]
    (change,) = changes(days)
    assert (change.before.seconds, change.after.seconds) == (900, 900)


def test_a_drop_has_its_begin_end_and_depth():
    fields = {"kind": "sudden", "seconds": 30.0, "baseline_length": 3.0, "length": 1.5}
    events = [
        (1000.0, Event("acceptance_dropped", fields)),
        (1600.0, Event("acceptance_recovered", fields)),
        (2000.0, Event("acceptance_dropped", fields)),
    ]
    first, second = drops(events)
    assert (first.begin, first.end, first.recovered, first.depth) == (970.0, 1600.0, True, 0.5)
    assert second.end is None
