"""When targets are polled: shared ticks, and longer intervals of costly targets."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.poller import (
    COSTLY_SHARE,
    ORDINARY_SHARE,
    TARGET_SHARE,
    PollBudget,
    next_tick,
    phase,
)

intervals = st.sampled_from([0.1, 0.25, 0.7, 1.0, 1.5, 5.0, 60.0])
offsets = st.floats(0, 1, exclude_max=True)
EARLY = 0.002  # seconds by which a timer may fire early: a clock of milliseconds fires up to one early


# Ticks.


def test_phases_are_stable_and_spread_evenly():
    phases = Counter(phase(f"http://vllm-{number}:8000/metrics") for number in range(6400))
    assert sorted(phases) == [moment / 64 for moment in range(64)]
    assert all(50 < count < 170 for count in phases.values())


@given(
    st.floats(0, 1e8), intervals, offsets, st.lists(st.floats(-0.9 * EARLY, 0.09), min_size=2, max_size=50)
)
def test_ticks_are_one_interval_apart_and_unique_in_spite_of_jitter(start, interval, offset, jitters):
    ticks = [next_tick(start, interval, offset)]
    assert start < ticks[0] <= start + interval + EARLY + 1e-6
    assert abs((ticks[0] / interval - offset + 0.5) % 1 - 0.5) < 1e-6
    for jitter in jitters:
        ticks.append(next_tick(ticks[-1] + jitter, interval, offset))
    assert all(after - before == pytest.approx(interval, rel=1e-6) for before, after in pairwise(ticks))


# What costly polls share.


@pytest.mark.parametrize(
    ("costs", "intervals"),
    [
        ([0.0005] * 10_000, {1.0}),  # ordinary ones are never costly
        ([0.001] * 400, {1.0}),
        ([0.001] * 1000, {2.0}),
        ([0.05], {1.0}),
        ([2.0], {2.0 / TARGET_SHARE}),
        ([0.04] * 5 + [2.0] * 5, {1.0, 2.0 / TARGET_SHARE}),
        ([0.02] * 5 + [2.0] * 10, {1.2, 48.0}),  # 0.6 of a core is too much
        ([0.04] * 5 + [2.0] * 16, {2.0, 80.0}),
    ],
)  # fmt: skip
def test_costly_targets_are_polled_less_often_so_that_they_take_half_a_core(costs, intervals):
    budget, targets = PollBudget(), range(len(costs))
    for target, cost in zip(targets, costs, strict=True):
        budget.interval(target, cost, 1.0)
    found = map(budget.interval, targets, costs, [1.0] * len(costs))
    assert sorted({round(interval, 6) for interval in found}) == pytest.approx(sorted(intervals))


@given(st.lists(st.tuples(st.floats(0.0, 100.0), intervals), max_size=30))
def test_costly_targets_together_keep_to_half_a_core(targets):
    budget, names = PollBudget(), range(len(targets))
    for name, target in zip(names, targets, strict=True):
        budget.interval(name, *target)
    costly = [
        (cost, interval, budget.interval(name, cost, interval))
        for name, (cost, interval) in zip(names, targets, strict=True)
        if cost > ORDINARY_SHARE * interval
    ]
    assert all(found >= interval for _, interval, found in costly)
    assert all(cost / found <= TARGET_SHARE * (1 + 1e-9) for cost, _, found in costly)
    total = sum(cost / found for cost, _, found in costly)
    assert total <= COSTLY_SHARE * (1 + 1e-9)
    if any(found > max(interval, cost / TARGET_SHARE) * (1 + 1e-9) for cost, interval, found in costly):
        assert total == pytest.approx(COSTLY_SHARE)
