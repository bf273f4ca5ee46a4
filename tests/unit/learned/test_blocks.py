"""Drafting by a key over the last days, as sums of blocks."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.costs.cost import CostModel
from spec_decode_exporter.learned.blocks import (
    BLOCK_SECONDS,
    HALF_WEEK,
    MAX_KEYS,
    MIN_BLOCKS,
    BlocksByKey,
    Piece,
    context_band,
    fall_by_cache,
)

WALL = 3000 * HALF_WEEK
"""Begin of a half week."""


def piece(accepted=2.0, drafts=1000.0, seconds=BLOCK_SECONDS, tokens=4, **more):
    """Return steps that all draft, with ``accepted`` tokens of each draft."""
    counts = (drafts, drafts * (1 + accepted), drafts, tokens * drafts, accepted * drafts)
    return Piece(seconds, *counts, 8 * drafts, 0.01 * drafts, 20_000.0, 10.0)._replace(**more)


def blocks(accepted, wall=WALL, **more):
    """Return the sums of one block for each number of accepted tokens of a draft."""
    found = BlocksByKey()
    for place, each in enumerate(accepted, 1):
        found.add(4, piece(each, **more), wall + place * BLOCK_SECONDS)
    return found.sums(wall + len(accepted) * BLOCK_SECONDS)[4]


class TestSums:
    def test_a_block_is_complete_after_its_time_and_begins_with_its_first_poll(self):
        its = BlocksByKey()
        for second in range(1, 120):
            its.add(3, piece(seconds=1.0), WALL + second)
        assert its.kept == {}
        its.add(3, piece(seconds=1.0), WALL + 150)
        ((only,),) = its.kept.values()
        assert (only.number, only.begin, only.end, only.sums.steps) == (1, WALL, WALL + 150, 120_000)

    @given(accepted=st.lists(st.floats(0, 4), min_size=MIN_BLOCKS, max_size=30), drafts=st.floats(1, 1e6))
    def test_ratios_are_those_of_the_sums_and_within_their_bounds(self, accepted, drafts):
        found = blocks(accepted, drafts=drafts)
        length, tokens = found.acceptance_length, found.tokens_per_step
        mean = sum(accepted) / len(accepted)
        assert length.value == pytest.approx(1 + mean)
        assert length.lower <= length.value <= length.upper
        assert tokens.value == pytest.approx(1 + mean)  # every step drafts
        assert length.upper - length.lower <= 20 * (max(accepted) - min(accepted)) + 1e-6

    def test_bounds_contain_the_truth_of_blocks_that_differ(self):
        random, inside = Random(5), 0
        for _ in range(300):
            found = blocks([random.gauss(2.0, 0.4) for _ in range(MIN_BLOCKS)])
            inside += found.acceptance_length.lower <= 3.0 <= found.acceptance_length.upper
        assert 0.92 <= inside / 300 <= 0.98

    def test_few_blocks_have_no_bounds(self):
        few = blocks([2.0] * (MIN_BLOCKS - 1))
        assert few.acceptance_length is few.tokens_per_step is None

    def test_they_cover_this_half_week_and_the_last_one_of_the_key(self):
        its = BlocksByKey()
        for half_week in range(4):
            its.add(4, piece(half_week), WALL + half_week * HALF_WEEK)
        assert [each.sums.accepted for each in its.kept[4]] == [2000, 3000]
        assert its.sums(WALL + 3 * HALF_WEEK)[4].number == 2
        assert its.sums(WALL + 4.5 * HALF_WEEK)[4].number == 1
        assert its.sums(WALL + 5 * HALF_WEEK) == {}

    @pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 2, 1)])
    def test_older_ones_may_be_restored_after_newer_ones(self, order):
        its = BlocksByKey()
        for half_week in order:
            its.add(4, piece(half_week), WALL + half_week * HALF_WEEK)
        assert [each.sums.accepted for each in its.kept[4]] == [2000 * order.count(2), 3000]

    def test_keys_are_limited_and_the_one_that_was_absent_for_longest_goes(self):
        its = BlocksByKey()
        for key in range(MAX_KEYS + 1):
            its.add(key, piece(), WALL + key)
        assert list(its.kept) == list(range(1, MAX_KEYS + 1))


class TestSpeedup:
    MODEL = CostModel(CostSettings(draft_cost_ratio=0.1, running_requests=8.0))

    def test_its_bounds_contain_the_sampling_and_the_range_of_the_cost(self):
        exact, sampled = (blocks(each).speedup(self.MODEL) for each in ([2.0] * 20, [1.0, 3.0] * 10))
        assert exact[:3] == pytest.approx((3 / 1.4, 3 / 1.5, 3 / 1.3))
        assert sampled.lower < exact.lower < exact.upper < sampled.upper

    def test_without_drafts_without_a_cost_and_of_few_blocks_it_is_unknown(self):
        paused = blocks([0.0] * 20, tokens=0)._replace(sums=piece(0.0)._replace(drafts=0.0, draft_tokens=0.0))
        assert paused.speedup(self.MODEL) is None
        assert blocks([2.0] * 20).speedup(CostModel()) is None
        assert blocks([2.0] * 3).speedup(self.MODEL) is None

    @pytest.mark.parametrize("field", Piece._fields)
    def test_sums_of_a_file_that_contradict_each_other_raise_nothing(self, field):
        its = blocks([2.0] * 20)
        its = its._replace(sums=its.sums._replace(**{field: 0.0}))
        its.speedup(self.MODEL)
        fall_by_cache({1: its, 2: its})
        assert its.running_requests >= 0


class TestContexts:
    def test_a_band_is_half_a_doubling_of_the_cache_that_a_request_holds(self):
        assert [context_band(each) for each in (0.01, 0.0139, 0.0145, 0.02)] == [-14, -13, -13, -12]
        assert [context_band(each) for each in (1e-300, 1e-6, 1.0, 1e300)] == [-40, -40, 0, 0]

    @staticmethod
    def fall(*bands):
        """Bands of accepted tokens and the cache of a request."""
        sums = {context_band(cache): blocks(accepted, cache=cache * 1000.0) for accepted, cache in bands}
        return fall_by_cache(dict(sorted(sums.items())))

    def test_a_fall_has_the_contexts_of_its_ends_by_the_mean_of_all(self):
        long = [0.55, 0.65] * 6
        found = self.fall((long, 0.03), ([1.35, 1.45] * 6, 0.01))
        assert (found.short_length, found.long_length) == pytest.approx((2.4, 1.6))
        assert (found.short_tokens, found.long_tokens) == pytest.approx((1000, 3000))
        assert found.long_bounds[0] < 1.6 < found.long_bounds[1] < found.short_bounds[0]

    @pytest.mark.parametrize(
        ("long", "falls"),
        [
            ([0.6] * 12, True),
            ([1.17] * 12, False),
            ([1.15] * 12, True),
            ([0.0, 2.2] * 6, False),
            ([0.6] * 5, False),
        ],
        ids=["clear", "less than a tenth", "a tenth", "by chance", "few blocks"],
    )
    def test_it_must_be_large_and_significant(self, long, falls):
        assert (self.fall((long, 0.03), ([1.39, 1.41] * 6, 0.01)) is not None) is falls

    def test_the_ends_share_no_block(self):
        middle = [1.0], 0.03
        assert self.fall(([1.4] * 5, 0.01), middle, ([0.6] * 5, 0.09)) is None
        assert self.fall(([1.4] * 5, 0.01), middle, ([0.6] * 6, 0.09)) is not None

    def test_longer_contexts_with_a_higher_acceptance_are_no_fall(self):
        assert self.fall(([0.6] * 12, 0.01), ([1.4] * 12, 0.03)) is None

    def test_without_counted_prompts_no_context_is_known(self):
        bands = {1: blocks([1.4] * 12, requests=0.0), 4: blocks([0.6] * 12, requests=0.0)}
        assert fall_by_cache(bands) is None
