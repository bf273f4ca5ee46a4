"""Acceptance by position, also if a schedule changes the number of draft tokens (regimes)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.figures.positions import Positions, Regime
from tests.fakes.windows import summed, window


@pytest.mark.parametrize(
    ("positions", "acceptance", "conditional", "decay", "lengths"),
    [
        (
            Positions(window(100, 400, 230, positions=(80, 65, 50, 35))),
            [0.80, 0.65, 0.50, 0.35],
            [80 / 100, 65 / 80, 50 / 65, 35 / 50],
            (65 + 50 + 35) / (80 + 65 + 50),
            [0.20, 0.15, 0.15, 0.15, 0.35],
        ),
        (Positions(window(10, 10, 5, positions=(5,))), [0.5], [0.5], None, [0.5, 0.5]),
        # No draft reached the last position.
        (Positions(window(10, 30, 4, positions=(4, 0, 0))), [0.4, 0, 0], [0.4, 0, None], 0, [0.6, 0.4, 0, 0]),
        (Positions(window(10, 30, 0, positions=(0, 0, 0))), [0, 0, 0], [0, None, None], None, [1, 0, 0, 0]),
        (Positions(window(0, 0, 0, positions=(0, 0))), [None] * 2, [None] * 2, None, [None] * 3),  # idle
        (Positions(window(10, 30, 15)), [], [], None, []),  # without positions
        # Their number is known by T/D alone.
        (Positions(window(10, 30, 15, positions=(0, 0, 0))), [], [], None, []),
        (Positions(window(None, None, None, positions=(5,))), [None], [None], None, []),
    ],
)
def test_figures_of_positions(positions, acceptance, conditional, decay, lengths):
    assert positions.acceptance == acceptance
    assert positions.conditional == conditional
    assert positions.decay == decay
    assert positions.lengths == pytest.approx(lengths)


@pytest.mark.parametrize(
    ("drafted", "expected"),
    [
        (400, [100, 100, 100, 100]),
        # 40 tokens are missing: all of them the fourth, or 20 drafts end before the third, …
        (360, [90, 260 / 3, 80, 60]),
        (300, [75, 200 / 3, 50, 0]),
        (405, [100, 100, 100, 100]),  # torn
    ],
)
def test_the_minimum_of_drafts_that_reach_a_position(drafted, expected):
    found = Positions(window(100, drafted, 90, positions=(50, 20, 15, 5)))
    assert [found.least_drafted(position) for position in range(4)] == expected
    counts = zip((50, 20, 15, 5), expected, strict=True)
    highest = [accepted / least if least else None for accepted, least in counts]
    assert [found.highest_acceptance(position) for position in range(4)] == highest


def increment(lengths, accepted, tokens=4):
    return {
        "drafts": len(lengths),
        "draft_tokens": sum(lengths),
        "accepted_tokens": sum(accepted),
        "positions": [sum(each > place for each in accepted) for place in range(tokens)],
    }


def accepted_of(generator, length, acceptance):
    return next((place for place in range(length) if generator.random() >= acceptance), length)


def scheduled(generator, lengths, acceptance=0.8, drafts=50):
    """An increment for each of the lengths that a schedule chose."""
    return [
        increment([length] * drafts, [accepted_of(generator, length, acceptance) for _ in range(drafts)])
        for length in lengths
    ]


LONG, SHORT = increment([4] * 10, [4] * 6 + [0] * 4), increment([2] * 30, [2] * 15 + [1] * 15)
MIXED = increment([4] * 20 + [2] * 30, [0] * 50)  # K changed within it


class TestRegimes:
    def test_a_schedule_that_changes_k_has_one_for_each_number_of_tokens(self):
        expected = Regime(2, 30, (30, 15)), Regime(4, 20, (12, 12, 12, 12))
        assert Positions(summed([LONG, SHORT, LONG])).regimes == expected

    def test_a_position_counts_the_drafts_that_had_it(self):
        found = Positions(summed([LONG, SHORT]))
        assert found.acceptance == [36 / 40, 21 / 40, 6 / 10, 6 / 10]
        assert found.conditional == [36 / 40, 21 / 36, 6 / 6, 6 / 6]
        assert found.counts == [(36, 40), (21, 36), (6, 6), (6, 6)]
        assert found.decay == (15 + 18) / (30 + 18)
        assert [found.drafts_with(position) for position in range(4)] == [40, 40, 10, 10]
        assert [found.highest_acceptance(position) for position in range(4)] == [0.9, 0.525, 0.6, 0.6]
        assert [found.drafted_up_to(tokens) for tokens in range(5)] == [0, 1, 2, 90 / 40, 100 / 40]
        assert found.common == 2
        assert found.lengths == [4 / 40, 15 / 40, 15 / 40, 0, 6 / 40]  # of all drafts

    def test_a_position_that_no_draft_had_has_no_value(self):
        found = Positions(summed([increment([2] * 50, [2] * 25 + [0] * 25)] * 4))
        assert found.acceptance == [0.5, 0.5, None, None]
        assert found.conditional == [0.5, 1.0, None, None]
        assert found.decay == 1.0

    def test_increments_during_which_k_changed_are_left_out(self):
        found = Positions(summed([*scheduled(random.Random(1), [4] * 8 + [2] * 8), MIXED]))
        assert [regime.drafts for regime in found.regimes] == [400, 400]

    @pytest.mark.parametrize(
        ("increments", "common"),
        [
            (scheduled(random.Random(2), [4] * 10), 4),
            (scheduled(random.Random(3), [4] * 30 + [2]), 1),
            ([increment([2] * 50, [0] * 50), MIXED, MIXED], 1),
            ([increment([2] * 9, [0] * 9)] * 20, 1),
            ([increment(each, [0] * 20) for each in ([2] * 20, [5] * 40, [1, 2] * 20)], 1),
        ],
        ids=["constant K", "a rare short one", "K changed within most", "few drafts", "more tokens than K"],
    )
    def test_there_are_none_without_a_schedule_that_changes_k(self, increments, common):
        found = Positions(summed(increments))
        assert (found.regimes, found.common) == ((), common)
        assert found.drafts_with(0) is found.drafted_up_to(2) is None

    @pytest.mark.parametrize("drafts", [1, 10, 40, 200])
    @pytest.mark.parametrize("weights", [(0, 0, 1, 9), (1, 0, 0, 9), (9, 0, 0, 1), (1, 2, 0, 0)], ids=str)
    def test_there_are_none_of_a_search_in_busy_and_in_quiet_increments(self, drafts, weights):
        generator = random.Random(7)
        for _ in range(5):
            searches = (generator.choices((1, 2, 3, 4), weights, k=drafts) for _ in range(60))
            increments = [
                increment(lengths, [accepted_of(generator, length, 0.7) for length in lengths])
                for lengths in searches
            ]
            found = Positions(summed(increments))
            assert found.regimes == ()
            counts = map(sum, zip(*(each["positions"] for each in increments), strict=True))
            assert found.acceptance == [count / (60 * drafts) for count in counts]

    def test_there_are_none_without_positions_drafts_or_increments(self):
        unknown = window(10, 20, 15, positions=(0, 0, 0)), window(10, 30, 5, positions=(5, 0, 0, 0))
        for each in (window(10, 30, 15), window(), *unknown):
            assert Positions(each).regimes == ()

    def test_there_are_none_of_positions_that_are_not_known(self):
        schedule = [each | {"positions": [0] * 4} for each in (LONG, SHORT, LONG)]
        assert Positions(summed(schedule)).regimes == ()


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=1, max_size=60))
def test_counted_draft_tokens_of_a_position_tell_the_drafts_that_had_it(drafts):
    drafts = [(length, min(length, accepted)) for length, accepted in drafts]
    lengths, accepted = zip(*drafts, strict=True)
    had, survived = (
        [sum(each > place for each in counts) for place in range(4)] for counts in (lengths, accepted)
    )
    totals = len(drafts), sum(lengths), sum(accepted)
    found = Positions(window(*totals, positions=survived, drafted=tuple(had)))
    shares = [a / d if d else None for a, d in zip(survived, had, strict=True)]
    if min(lengths) < 4:  # else as without the counts
        assert found.acceptance == [found.highest_acceptance(place) for place in range(4)] == shares
        assert [found.drafts_with(place) for place in range(4)] == had
        expected = [sum(min(length, tokens) for length in lengths) / len(drafts) for tokens in range(5)]
        assert [found.drafted_up_to(tokens) for tokens in range(5)] == pytest.approx(expected)
    assert found.common == min(lengths)
    assert [found.least_drafted(place) for place in range(4)] == had


def test_a_draft_that_ended_before_a_position_is_like_the_others():
    its = window(100, 250, 150, positions=(90, 40, 20), drafted=(100, 100, 50))
    found = Positions(its)
    assert found.counts == [(90, 100), (40, 90), (20, 20)]
    assert found.conditional == [0.9, 40 / 90, 1.0]
    unverified = Positions(its, are_verified=False)
    assert (unverified.acceptance, unverified.drafts_with(2)) == ([], None)


@pytest.mark.parametrize(
    "totals", [(100, 250, 150), (None, None, None)], ids=("none accepted there", "unknown")
)
def test_counted_draft_tokens_tell_nothing_if_positions_or_drafts_are_unknown(totals):
    found = Positions(window(*totals, positions=(0, 0, 0), drafted=(100, 100, 50)))
    assert (found.acceptance, found.counts, found.drafts_with(2)) == ([], [], None)
