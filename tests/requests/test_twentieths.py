from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter.requests.twentieths import twentieths


def test_a_ratio_on_a_bound_belongs_to_the_part_above_and_1_to_the_last():
    counts = twentieths([0.0, 0.049, 0.5, 0.99, 1.0])
    assert counts[0] == 2
    assert (counts[10], counts[19], len(counts)) == (1, 2, 20)


@given(st.lists(st.floats(0, 1)))
def test_every_ratio_is_counted_once(ratios):
    assert sum(twentieths(ratios)) == len(ratios)
