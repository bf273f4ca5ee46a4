from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.acceptance_histogram import BOUNDS, acceptance_histogram


def test_a_ratio_on_a_bound_belongs_to_the_part_above_and_1_to_the_last():
    counts = acceptance_histogram([0.0, 0.049, 0.5, 0.99, 1.0])
    assert counts[0] == 2
    assert (counts[10], counts[19], len(counts)) == (1, 2, 20)


@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_a_share_of_tokens_is_counted_between_its_bounds(accepted, tokens):
    ratio = min(accepted, tokens) / tokens
    place = acceptance_histogram([ratio]).index(1)
    assert BOUNDS[place] <= ratio < BOUNDS[place + 1] or ratio == BOUNDS[-1] == 1


@given(st.lists(st.floats(0, 1)))
def test_every_ratio_is_counted_once_where_it_belongs(ratios):
    alone = [acceptance_histogram([ratio]) for ratio in ratios]
    assert acceptance_histogram(sorted(ratios)) == tuple(
        sum(each[part] for each in alone) for part in range(20)
    )
    assert sum(acceptance_histogram(sorted(ratios))) == len(ratios)
