from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.scrape.errors import REASONS
from spec_decode_exporter.scrape.poll.poll_schedule import (
    MAX_BACK_OFF,
    MAX_BACK_OFF_REFUSED,
    PHASES,
    back_off,
    next_tick,
    phase,
    phases_of,
)

intervals = st.sampled_from([0.1, 0.25, 0.7, 1.0, 1.5, 5.0, 60.0])
offsets = st.floats(0, 1, exclude_max=True)
moments = st.floats(0, 1e8)
EARLY = 0.002
"""Seconds by which a timer may fire early; uvloop's fire up to a millisecond early."""


# Ticks.


def test_phases_are_spread_evenly_over_a_few_moments():
    phases = Counter(phase(f"http://vllm-{number}:8000/metrics") for number in range(2000))
    assert sorted(phases) == [moment / PHASES for moment in range(PHASES)]
    assert all(200 < count < 300 for count in phases.values())


@pytest.mark.parametrize(
    ("targets", "phases"), [(0, 8), (399, 8), (400, 16), (1000, 32), (1600, 64), (20_000, 64)]
)
def test_many_targets_are_polled_at_more_moments(targets, phases):
    assert phases_of(targets) == phases
    moments = Counter(phase(f"http://vllm-{number}:8000/metrics", phases) for number in range(20_000))
    assert sorted(moments) == [moment / phases for moment in range(phases)]
    expected = 20_000 / phases
    assert all(0.5 * expected < count < 1.5 * expected for count in moments.values())


@given(moments, intervals, offsets)
def test_the_next_tick_is_within_one_interval(now, interval, offset):
    beat = next_tick(now, interval, offset)
    assert now < beat <= now + interval + EARLY + 1e-6
    assert abs((beat / interval - offset + 0.5) % 1 - 0.5) < 1e-6


@given(moments, intervals, offsets, st.lists(st.floats(-0.9 * EARLY, 0.09), min_size=2, max_size=50))
def test_ticks_are_one_interval_apart_and_unique_in_spite_of_jitter(start, interval, offset, jitters):
    beats = [next_tick(start, interval, offset)]
    for jitter in jitters:
        beats.append(next_tick(beats[-1] + jitter, interval, offset))
    assert all(after - before == pytest.approx(interval, rel=1e-6) for before, after in pairwise(beats))


@given(intervals, offsets, st.floats(1.01, 50))
def test_ticks_during_a_slow_poll_are_skipped(interval, offset, late):
    first = next_tick(1000.0, interval, offset)
    second = next_tick(first + late * interval, interval, offset)
    beats = (second - first) / interval
    assert beats == pytest.approx(round(beats), abs=1e-6)
    assert late < beats <= late + 1 + EARLY / interval + 1e-6


# Back-off.


@given(intervals, st.integers(1, 10**9), st.sampled_from(REASONS))
def test_back_off_is_bounded(interval, failures, reason):
    wait = back_off(interval, failures, reason)
    most = MAX_BACK_OFF_REFUSED if reason == "refused" else MAX_BACK_OFF
    assert interval <= wait <= max(interval, most)


def test_back_off_doubles_with_every_failure():
    assert [back_off(1, failures, "timeout") for failures in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
    assert [back_off(1, failures, "refused") for failures in range(1, 6)] == [1, 2, 4, 5, 5]
