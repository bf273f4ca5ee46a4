"""Choice of the window that a verdict is about."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.evaluated_window import (
    Basis,
    Change,
    contradicts,
    since_change,
    unless_enough,
)
from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.analysis.window_bounds import NO_BOUNDS, Bounds
from spec_decode_exporter.config.policy import SpeedupPolicy
from spec_decode_exporter.figures.estimate import Estimate

POLICY = SpeedupPolicy()
LENGTH = Estimate(3.0, 2.9, 3.1, 0.05)
ENOUGH = Bounds(None, LENGTH, None, None)


def between(lower, upper):
    return Estimate((lower + upper) / 2, lower, upper, 0.05)


def speedup(lower, upper):
    return Bounds(None, None, between(lower, upper), None)


@pytest.fixture(name="windows")
def windows_fixture(evaluation_window):
    return evaluation_window(length=30.0), evaluation_window(length=300.0)


class TestSinceAChange:
    def test_the_window_begins_at_the_change(self, windows, evaluation_window):
        since = evaluation_window(length=80.0)
        chosen = since_change(windows, Change(since, 1234.0))
        assert (chosen.window, chosen.basis, chosen.since) == (since, Basis.CHANGE, 1234.0)
        assert chosen.is_early
        assert chosen.is_advisable

    def test_a_change_before_the_longest_window_does_not_count(self, windows, evaluation_window):
        chosen = since_change(windows, Change(evaluation_window(length=300.0), 1234.0))
        assert (chosen.basis, chosen.since) == (Basis.LONGEST, None)

    def test_without_a_change_it_is_the_longest_window(self, windows):
        chosen = since_change(windows, None)
        assert (chosen.window, chosen.basis) == (windows[-1], Basis.LONGEST)
        assert not chosen.is_early
        assert chosen.is_advisable


class TestEnough:
    @pytest.mark.parametrize(
        ("seconds", "bounds", "is_enough"),
        [
            (25, ENOUGH, False),  # bounds are calibrated from 30 s on, less jitter
            (26, ENOUGH, True),
            (26, NO_BOUNDS, False),
            (149, NO_BOUNDS, False),
            (150, NO_BOUNDS, True),
        ],
    )
    def test_is_a_window_with_bounds_or_half_of_the_longest(
        self, evaluation_window, seconds, bounds, is_enough
    ):
        filling = since_change((evaluation_window(length=300.0, seconds=seconds),), None)
        chosen = unless_enough(filling, bounds)
        assert chosen.window.partial is not is_enough
        assert not chosen.is_advisable

    def test_a_short_longest_window_needs_only_its_half(self, evaluation_window):
        filling = since_change((evaluation_window(length=20.0, seconds=10),), None)
        assert not unless_enough(filling, ENOUGH).window.partial


class TestContradiction:
    def test_lengths_whose_bounds_have_nothing_in_common_contradict(self):
        longer = replace(NO_BOUNDS, acceptance_length=between(2.9, 3.1))
        for length, is_so in ((between(2.0, 2.89), True), (between(2.0, 2.9), False)):
            shorter = replace(NO_BOUNDS, acceptance_length=length)
            assert contradicts(shorter, longer, Verdict.OPTIMAL, POLICY) is is_so

    def test_tokens_per_step_contradict_too(self):
        longer = replace(NO_BOUNDS, tokens_per_step=between(1.8, 2.2))
        silent = replace(NO_BOUNDS, tokens_per_step=between(1.0, 1.05))
        assert contradicts(silent, longer, Verdict.HEALTHY, POLICY)

    @pytest.mark.parametrize(
        ("verdict", "shorter", "is_so"),
        [
            (Verdict.OPTIMAL, (1.5, 1.99), True),
            (Verdict.OPTIMAL, (1.5, 2.0), False),
            (Verdict.HEALTHY, (1.0, 1.29), True),
            (Verdict.MARGINAL, (0.9, 0.99), True),
            (Verdict.MARGINAL, (0.9, 1.0), False),
            (Verdict.MARGINAL, (1.5, 1.9), False),
            (Verdict.POOR, (1.11, 1.5), True),
            (Verdict.HARMFUL, (1.01, 1.5), True),
            (Verdict.HARMFUL, (0.99, 1.5), False),
            (Verdict.INSUFFICIENT, (0.1, 0.2), False),
        ],
    )
    def test_bounds_of_the_speedup_exclude_a_verdict(self, verdict, shorter, is_so):
        assert contradicts(speedup(*shorter), NO_BOUNDS, verdict, POLICY) is is_so

    @given(st.sampled_from(Verdict), st.floats(0.1, 4.0), st.floats(0.0, 2.0))
    def test_no_window_contradicts_one_of_its_own_bounds(self, verdict, lower, width):
        own = replace(NO_BOUNDS, acceptance_length=between(lower, lower + width))
        assert not contradicts(own, own, verdict, POLICY)

    @pytest.mark.parametrize("verdict", Verdict)
    def test_a_window_without_bounds_contradicts_nothing(self, verdict):
        assert not contradicts(NO_BOUNDS, speedup(1.0, 2.0), verdict, POLICY)
