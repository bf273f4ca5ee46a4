"""Positions: acceptance, conditional acceptance, decay, and accepted lengths of drafts."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.figures.acceptance import acceptance_length_tokens
from spec_decode_exporter.figures.positions import (
    accepted_length_ratios,
    conditional_acceptance_ratios,
    decay_ratio,
    least_drafted,
    position_acceptance_ratios,
)


@pytest.fixture(name="worked")
def worked_fixture(make_window):
    return make_window(100, 400, 230, positions=(80, 65, 50, 35))


def test_a_position_s_ratio_is_of_all_drafts(worked):
    assert position_acceptance_ratios(worked) == [0.80, 0.65, 0.50, 0.35]


def test_a_position_s_conditional_ratio_is_of_the_drafts_that_reached_it(worked):
    assert conditional_acceptance_ratios(worked) == [80 / 100, 65 / 80, 50 / 65, 35 / 50]


def test_decay_is_pooled_over_all_positions_but_the_last(worked):
    assert decay_ratio(worked) == (65 + 50 + 35) / (80 + 65 + 50)
    assert round(decay_ratio(worked), 3) == 0.769


def test_no_decay_is_1(make_window):
    assert decay_ratio(make_window(10, 30, 15, positions=(5, 5, 5))) == 1.0


def test_one_position_cannot_decay(make_window):
    assert decay_ratio(make_window(10, 10, 5, positions=(5,))) is None


def test_decay_without_accepted_tokens_has_no_value(make_window):
    assert decay_ratio(make_window(10, 30, 0, positions=(0, 0, 0))) is None


def test_the_accepted_lengths_of_the_example(worked):
    assert accepted_length_ratios(worked) == pytest.approx([0.20, 0.15, 0.15, 0.15, 0.35])


def test_the_conditional_ratio_after_an_unreached_position_has_no_value(make_window):
    window = make_window(10, 30, 4, positions=(4, 0, 0))
    assert position_acceptance_ratios(window) == [0.4, 0.0, 0.0]
    assert conditional_acceptance_ratios(window) == [0.4, 0.0, None]


def test_an_idle_window_has_every_position_but_no_value(make_window):
    window = make_window(0, 0, 0, positions=(0, 0))
    assert position_acceptance_ratios(window) == [None, None]
    assert conditional_acceptance_ratios(window) == [None, None]
    assert accepted_length_ratios(window) == [None, None, None]


def test_an_engine_without_positions_has_none(make_window):
    window = make_window(10, 30, 15)
    assert position_acceptance_ratios(window) == []
    assert conditional_acceptance_ratios(window) == []
    assert accepted_length_ratios(window) == []
    assert decay_ratio(window) is None


def test_an_engine_without_drafts_has_no_lengths(make_window):
    assert accepted_length_ratios(make_window(positions=(5,))) == []


@given(st.lists(st.integers(0, 8), min_size=1, max_size=200), st.integers(1, 8))
def test_accepted_lengths_equal_those_of_counted_single_drafts(make_window, lengths, tokens):
    lengths = [min(length, tokens) for length in lengths]
    drafts = len(lengths)
    counts = [sum(length > place for length in lengths) for place in range(tokens)]
    window = make_window(drafts, tokens * drafts, sum(lengths), positions=counts)
    shares = [sum(length == exactly for length in lengths) / drafts for exactly in range(tokens + 1)]
    assert accepted_length_ratios(window) == pytest.approx(shares)
    mean = sum(length * share for length, share in enumerate(accepted_length_ratios(window)))
    assert acceptance_length_tokens(window) == pytest.approx(1 + mean)
    conditional = conditional_acceptance_ratios(window)
    for place, survival in enumerate(position_acceptance_ratios(window)):
        if survival:
            assert survival == pytest.approx(prod(conditional[: place + 1]))


@pytest.mark.parametrize(
    ("drafted", "expected"),
    [
        (400, [100, 100, 100, 100]),
        # 40 tokens are missing: all of them the fourth, or 20 drafts end before the third, …
        (360, [90, 260 / 3, 80, 60]),
        (300, [75, 200 / 3, 50, 0]),
        (100, [25, 0, 0, 0]),
        (405, [100, 100, 100, 100]),  # torn
    ],
)
def test_the_minimum_of_drafts_that_reach_a_position(make_window, drafted, expected):
    window = make_window(100, drafted, 0, positions=(0,) * 4)
    assert [least_drafted(window, position) for position in range(4)] == expected


@given(st.lists(st.integers(1, 8), min_size=1, max_size=60), st.integers(0, 7))
def test_the_minimum_of_drafts_holds_for_counted_single_drafts(make_window, lengths, position):
    window = make_window(len(lengths), sum(lengths), 0, positions=(0,) * 8)
    assert least_drafted(window, position) <= sum(length > position for length in lengths)
