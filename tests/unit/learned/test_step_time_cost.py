"""Bounds of a cost from step times: by formula, and how often they contain the truth."""

from __future__ import annotations

import random
from math import exp, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.learned.block_times import BlockTimes
from spec_decode_exporter.learned.step_time_cost import (
    ANOTHER_DAY,
    MIN_BATCHES,
    UNSEEN,
    StepTime,
    measured_cost,
)
from tests.fixtures.windows import increment

LONG = 1e9
"""BlockSteps after which only the errors remain that no data reduces."""


def plain(load, time, *, error=0.0, batches=LONG, degrees=10.0):
    return StepTime(load, time, error, degrees, batches)


def drafting(load, time, *, error=0.0, batches=LONG, tokens=4.0, drafts=1.0):
    return StepTime(load, time, error, 10.0, batches, drafts, tokens)


def cost(one, *others, **more):
    return measured_cost(one, others, **more)


class TestFormula:
    def test_without_sampling_error_the_rest_is_what_no_data_reduces(self):
        found = cost(drafting(8, 0.028), plain(8, 0.020))
        assert found.token.guess == pytest.approx(0.1)
        assert found.token.high == pytest.approx((1.4 * (1 + UNSEEN) - 1) / 4, rel=1e-3)
        assert found.token.low == pytest.approx((1.4 * (1 - UNSEEN) - 1) / 4, rel=1e-3)

    def test_the_relative_variances_add_up(self):
        one = cost(drafting(8, 0.028, error=0.0028), plain(8, 0.020))
        both = cost(drafting(8, 0.028, error=0.0028), plain(8, 0.020, error=0.0020))
        assert (both.token.high - both.token.low) / (one.token.high - one.token.low) == pytest.approx(
            sqrt(2) * 2.086 / 2.228, rel=0.02
        )

    def test_a_short_measurement_has_wider_bounds(self):
        # 1000 steps of 20 ms are 20 s, and contexts vary by 3 % within minutes.
        short = cost(drafting(8, 0.028, batches=1000), plain(8, 0.020, batches=1000))
        assert short.token.high - short.token.low > 2 * 1.4 * 1.96 * 0.03 * sqrt(2) / 4

    def test_another_day_adds_a_tenth_to_plain_steps(self):
        same, other = (cost(drafting(8, 0.028), plain(8, 0.020), another_day=day) for day in (False, True))
        assert other.token.guess == same.token.guess
        assert 4 * (other.token.high - same.token.high) == pytest.approx(1.4 / (1 - ANOTHER_DAY) - 1.4)
        assert 4 * (same.token.low - other.token.low) == pytest.approx(1.4 - 1.4 / (1 + ANOTHER_DAY))

    def test_the_fixed_cost_is_paid_by_steps_with_drafts_or_by_every_step(self):
        given = drafting(8, 0.026, drafts=0.5, tokens=1.0)
        assert cost(given, plain(8, 0.02), fixed_tokens=2.0).token.guess == pytest.approx(0.15)
        every = cost(given, plain(8, 0.02), fixed_tokens=2.0, every_step_pays=True)
        assert every.token.guess == pytest.approx(0.1)

    def test_steps_that_are_no_longer_with_drafts_cost_nothing(self):
        found = cost(drafting(8, 0.019), plain(8, 0.020))
        assert found.token == (0, 0, 0)


class TestLoad:
    def test_between_two_loads_both_bound_the_time(self):
        found = cost(drafting(10, 0.030), plain(8, 0.020), plain(16, 0.024))
        assert found.token.guess == pytest.approx((0.030 / 0.021 - 1) / 4)
        # From 20 ms, as at 8 requests, to 24 ms, as at 16, and to 25 ms, in proportion to 8 requests.
        assert found.token.high == pytest.approx((0.030 / 0.020 - 1 + 0.030 / 0.021 * UNSEEN) / 4, rel=1e-3)
        assert found.token.low == pytest.approx((0.030 / 0.024 - 1 - 0.030 / 0.021 * UNSEEN) / 4, rel=1e-3)

    def test_beyond_the_loads_the_line_is_continued_within_what_is_possible(self):
        found = cost(drafting(24, 0.030), plain(26, 0.0226), plain(32, 0.0232))
        assert found.token.guess == pytest.approx((0.030 / 0.0224 - 1) / 4)
        assert found.token.high > (0.030 / (0.0226 * 24 / 26) - 1) / 4
        assert found.token.low < (0.030 / 0.0226 - 1) / 4

    @pytest.mark.parametrize("load", [8 * 1.42, 8 / 1.42])
    def test_more_than_a_factor_of_root_two_away_there_is_no_cost(self, load):
        assert cost(drafting(load, 0.03), plain(8, 0.02)) is None

    @pytest.mark.parametrize(
        "known",
        [
            [],
            [plain(8, 0.02, batches=MIN_BATCHES - 1)],
            [plain(8, 0.02, degrees=1.9)],
            [plain(8, 0.0)],
        ],
    )
    def test_without_enough_plain_steps_there_is_no_cost(self, known):
        assert cost(drafting(8, 0.03), *known) is None

    @pytest.mark.parametrize(
        "given", [drafting(8, 0.03, batches=MIN_BATCHES - 1), drafting(8, 0.03, tokens=0.0)]
    )
    def test_without_enough_steps_with_drafts_there_is_no_cost(self, given):
        assert cost(given, plain(8, 0.02)) is None

    @given(
        memory=st.floats(0.005, 0.05),
        slope=st.floats(0, 0.002),
        loads=st.lists(st.integers(1, 256), min_size=1, max_size=6, unique=True),
        near=st.floats(-0.49, 0.49),
        ratio=st.floats(0, 1),
    )
    def test_without_noise_the_truth_is_always_inside(self, memory, slope, loads, near, ratio):
        """A step takes a + b·n: any course between constant and proportional."""
        load = min(loads) * 2.0**near
        known = [plain(float(each), memory + slope * each) for each in sorted(loads)]
        truth = memory + slope * load
        found = cost(drafting(load, truth * (1 + 4 * ratio)), *known)
        assert found.token.low <= ratio + 1e-9
        assert found.token.high >= ratio - 1e-9
        assert found.token.low <= found.token.guess <= found.token.high


class Engine:
    """Polls of an engine with prefills, contexts that wander for a minute, and a course of times by load."""

    def __init__(self, course, seed):
        self.course, self.random = course, random.Random(seed)
        self.times = BlockTimes()
        self.now = 0.0
        self.slow = self.random.gauss(0, 0.03)

    def run(self, seconds, load, tokens, cost, poll):
        for _ in range(round(seconds / poll)):
            kept = exp(-poll / 60)
            self.slow = kept * self.slow + sqrt(1 - kept * kept) * self.random.gauss(0, 0.03)
            running = max(1, round(load * self.random.lognormvariate(0, 0.1)))
            step = self.course(running) * (1 + self.slow) * (1 + cost * tokens)
            prefills = sum(self.random.expovariate(1 / 0.06) for _ in range(self.random.randrange(3)))
            steps = max(1, round((poll - min(prefills, poll / 2)) / step))
            counted = increment(
                self.now,
                self.now + poll,
                decode_steps=steps * running,
                decode_nanoseconds=round(1e9 * running * (steps * step + min(prefills, poll / 2))),
                drafts=steps * running * bool(tokens),
                draft_tokens=steps * running * tokens,
            )
            self.times.observe(counted, running)
            self.now += poll


COURSES = {
    "bound by memory": lambda load: 0.020 + 0.00005 * load,
    "bound by compute": lambda load: max(0.015, 0.0008 * load),
    "padded to eights": lambda load: 0.018 + 0.0016 * -(-load // 8),
    "mixture of experts": lambda load: 0.008 + 0.012 * (1 - exp(-load / 16)) + 0.0001 * load,
}


@pytest.mark.parametrize("course", COURSES.values(), ids=list(COURSES))
@pytest.mark.parametrize(
    ("loads", "seconds", "poll"),
    [((8, 8), (60, 60), 1.0), ((32, 32), (300, 60), 5.0), ((24, 21), (200, 100), 2.0)],
)
def test_the_truth_is_inside_in_nine_of_ten_simulations(course, loads, seconds, poll):
    inside = found = 0
    for seed in range(60):
        engine = Engine(course, seed)
        true = engine.random.uniform(0.02, 0.4)
        engine.run(seconds[0], loads[1], 3, true, poll)
        engine.run(seconds[1], loads[0], 0, true, poll)
        for each in (point.token for curve in engine.times.costs() for point in curve.points):
            found += 1
            inside += each.low <= true <= each.high
    assert found > 40
    assert inside / found >= 0.9
