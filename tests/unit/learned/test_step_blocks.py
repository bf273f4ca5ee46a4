"""Blocks of decode steps at one load."""

from __future__ import annotations

import random
from dataclasses import replace
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.learned.step_blocks import (
    HALF_LIFE_SECONDS,
    MAX_BLOCKS,
    MAX_SAVED_BLOCKS,
    BlockSteps,
    StepBlocks,
    step_time,
)


def filled(polls, begin=0.0, every=1.0):
    """Return blocks of ``(seconds of a step, steps)`` at 8 requests."""
    blocks = StepBlocks()
    for number, (time, steps) in enumerate(polls, 1):
        blocks.add(BlockSteps(time * steps * 1e9, steps, 8 * steps, 4 * steps, steps), begin + number * every)
    return blocks, begin + len(polls) * every


polls = st.lists(st.tuples(st.floats(0.001, 1), st.integers(1, 10_000)), min_size=1, max_size=200)


@given(polls)
def test_merging_blocks_changes_no_mean(given):
    blocks, now = filled(given)
    found = step_time([blocks], now)
    assert len(list(blocks.rows(now))) <= MAX_BLOCKS
    total = sum(steps for _, steps in given)
    # The first of 200 seconds weighs a third of a percent less than the last.
    assert found.time == pytest.approx(sum(time * steps for time, steps in given) / total, rel=0.01)
    assert (found.running_requests, found.draft_tokens, found.drafts) == pytest.approx((8, 4, 1))
    assert found.batches == pytest.approx(total / 8, rel=0.01)


def test_the_error_is_that_of_the_mean_of_independent_polls():
    chance = random.Random(7)
    errors, means = [], []
    for _ in range(300):
        blocks, now = filled([(chance.gauss(0.02, 0.004), 100) for _ in range(320)])
        found = step_time([blocks], now)
        errors.append(found.error**2)
        means.append(found.time)
    mean = sum(means) / len(means)
    spread = sum((each - mean) ** 2 for each in means) / (len(means) - 1)
    assert sum(errors) / len(errors) == pytest.approx(spread, rel=0.2)
    assert sqrt(spread) == pytest.approx(0.004 / sqrt(320), rel=0.1)


def test_polls_that_are_alike_for_long_count_as_few():
    """Ten polls each are alike: the error is that of 32 blocks of them, not of 320 polls."""
    chance = random.Random(7)
    alike = [(chance.gauss(0.02, 0.004), 100) for _ in range(32) for _ in [None]]
    blocks, now = filled([each for each in alike for _ in range(10)])
    single, _ = filled(alike)
    assert step_time([blocks], now).error == pytest.approx(step_time([single], 32.0).error, rel=0.4)


def test_older_steps_have_less_weight_within_and_between_blocks():
    blocks, _ = filled([(0.02, 100)] * 10)
    now = 10 + HALF_LIFE_SECONDS
    for number in range(10):
        blocks.add(BlockSteps(0.05 * 100e9, 100, 800), now + number)
    assert step_time([blocks], now + 9).time == pytest.approx((0.02 + 2 * 0.05) / 3, rel=1e-3)


def test_steps_of_two_days_ago_are_dropped_when_there_are_too_many():
    blocks, now = filled([(0.02, 100)] * MAX_BLOCKS)
    later = now + 5 * HALF_LIFE_SECONDS
    blocks.add(BlockSteps(2e9, 100, 800), later)
    assert len(list(blocks.rows(later))) == 1


def test_the_time_stays_while_its_weight_falls():
    blocks, now = filled([(0.02, 100), (0.03, 100), (0.04, 100)])
    before, later = blocks.time(now), blocks.time(now + HALF_LIFE_SECONDS)
    assert later == replace(before, batches=before.batches / 2)
    blocks.add(BlockSteps(100e9, 100, 800), now + 1)
    assert blocks.time(now + 1).time > before.time


def test_engines_are_merged_with_all_their_blocks():
    one, now = filled([(0.02, 100)] * 10)
    other, _ = filled([(0.04, 300)] * 10)
    found = step_time([one, other], now)
    assert found.time == pytest.approx((0.02 + 3 * 0.04) / 4)
    assert found.batches == pytest.approx(one.time(now).batches + other.time(now).batches)
    assert found.error > 0


def test_a_clock_that_is_set_back_stands_still():
    blocks, _ = filled([(0.02, 100)] * 5, begin=1e9)
    blocks.add(BlockSteps(2e9, 100, 800), 10.0)
    assert step_time([blocks], 1e9).time == pytest.approx(0.02)


def test_without_steps_there_is_no_time():
    assert step_time([StepBlocks()], 0.0) is None
    assert step_time([StepBlocks(), StepBlocks()], 0.0) is None


class TestPersistence:
    @given(polls)
    def test_restored_blocks_continue(self, given):
        blocks, now = filled(given)
        saved = blocks.saved()
        assert len(saved.rows) <= MAX_SAVED_BLOCKS
        again = StepBlocks()
        again.restore(saved)
        before, after = step_time([blocks], now), step_time([again], now)
        assert after.time == pytest.approx(before.time, rel=1e-6)
        assert after.batches == pytest.approx(before.batches, rel=1e-5)

    def test_later_polls_make_blocks_of_the_same_size(self):
        blocks, now = filled([(0.02, 100)] * 320)
        again = StepBlocks()
        again.restore(blocks.saved())
        for number in range(1, 65):
            again.add(BlockSteps(2e9, 100, 800), now + number)
        rows = list(again.rows(now + 64))
        assert {round(row.steps / 3200, 1) for row in rows} == {1.0}

    def test_blocks_in_another_order_are_refused(self):
        saved = filled([(0.02, 100)] * 5)[0].saved()
        with pytest.raises(ValueError, match="order"):
            StepBlocks().restore(replace(saved, rows=saved.rows[::-1]))
