"""The spread over a window's polls, weighted by draft tokens."""

from __future__ import annotations

from statistics import pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.figures.poll_spread import spread


def polls(*counts):
    """Return increments, each of draft tokens and accepted tokens."""
    return [{"draft_tokens": drafted, "accepted_tokens": accepted} for drafted, accepted in counts]


def test_a_window_without_draft_tokens_has_no_spread(make_window):
    assert spread(make_window()) is None
    assert spread(make_window(increments=polls((0, 0), (0, 0)))) is None


def test_a_poll_is_weighted_by_its_draft_tokens(make_window):
    found = spread(make_window(increments=polls((80, 72), (10, 1), (0, 0), (10, 5))))
    assert (found.lowest, found.highest) == (0.1, 0.9)
    assert found.quantile(0.10) == 0.1
    assert found.quantile(0.11) == 0.5
    assert found.quantile(0.50) == 0.9


def test_a_single_poll_has_no_standard_deviation(make_window):
    found = spread(make_window(increments=polls((10, 4))))
    assert found.lowest == found.highest == found.quantile(0.1) == found.quantile(0.9) == 0.4
    assert found.standard_deviation() == 0.0


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=20))
def test_it_is_the_spread_of_as_many_equal_rates_as_there_are_draft_tokens(make_window, increments):
    increments = [(drafted, min(drafted, accepted)) for drafted, accepted in increments]
    found = spread(make_window(increments=polls(*increments)))
    rates = sorted(accepted / drafted for drafted, accepted in increments for _ in range(drafted))
    assert (found.lowest, found.highest) == (rates[0], rates[-1])
    assert found.standard_deviation() == pytest.approx(pstdev(rates))
    for share in (0.1, 0.5, 0.9):
        rank = next(n for n in range(1, len(rates) + 1) if n >= share * len(rates))
        assert found.quantile(share) == rates[rank - 1]
