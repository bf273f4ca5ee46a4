"""Drafting by a key over the last days, as sums of blocks."""

from random import Random

import pytest

from spec_decode_exporter.config.comparison_settings import CostSettings
from spec_decode_exporter.costs.blocks import BLOCK_SECONDS, HALF_WEEK, MIN_BLOCKS, BlocksByKey, Piece
from spec_decode_exporter.costs.cost import CostSources

WALL = 3000 * HALF_WEEK  # begin of a half week


def piece(accepted=2.0, drafts=1000.0, seconds=BLOCK_SECONDS, tokens=4, **more):
    """Return steps that all draft, with ``accepted`` tokens of each draft."""
    counts = (drafts, drafts * (1 + accepted), drafts, tokens * drafts, accepted * drafts)
    return Piece(seconds, *counts, 8 * drafts)._replace(**more)


def blocks(accepted, wall=WALL, **more):
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

    def test_bounds_contain_the_truth_of_blocks_that_differ(self):
        random, inside = Random(5), 0
        for _ in range(300):
            found = blocks([random.gauss(2.0, 0.4) for _ in range(MIN_BLOCKS)])
            inside += found.acceptance_length.lower <= 3.0 <= found.acceptance_length.upper
        assert 0.92 <= inside / 300 <= 0.98

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


class TestSpeedup:
    MODEL = CostSources(CostSettings(draft_cost_ratio=0.1, running_requests=8.0))

    def test_its_bounds_contain_the_sampling_and_the_range_of_the_cost(self):
        exact, sampled = (blocks(each).speedup(self.MODEL) for each in ([2.0] * 20, [1.0, 3.0] * 10))
        assert exact[:3] == pytest.approx((3 / 1.4, 3 / 1.5, 3 / 1.3))
        assert sampled.lower < exact.lower < exact.upper < sampled.upper

    def test_without_drafts_without_a_cost_and_of_few_blocks_it_is_unknown(self):
        paused = blocks([0.0] * 20, tokens=0)._replace(sums=piece(0.0)._replace(drafts=0.0, draft_tokens=0.0))
        assert paused.speedup(self.MODEL) is None
        assert blocks([2.0] * 20).speedup(CostSources()) is None
        assert blocks([2.0] * 3).speedup(self.MODEL) is None

    @pytest.mark.parametrize("field", Piece._fields)
    def test_sums_of_a_file_that_contradict_each_other_raise_nothing(self, field):
        its = blocks([2.0] * 20)
        its = its._replace(sums=its.sums._replace(**{field: 0.0}))
        its.speedup(self.MODEL)
        assert its.running_requests >= 0
