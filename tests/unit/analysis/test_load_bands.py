"""Draft tokens by load: steps, boundaries, regrets and verdicts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.load_bands import load_bands, schedule_of
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.batch_schedule import NO_SCHEDULE, BatchSchedule
from spec_decode_exporter.config.comparison_settings import Architecture
from spec_decode_exporter.config.policy import DepthPolicy, Policy
from tests.fakes.evaluations import curve, knowledge
from tests.fakes.windows import window

TOLERANCE = DepthPolicy().tolerance
# 400 drafts of four tokens with a good drafter.
WINDOW = window(400, 1600, 920, positions=(320, 260, 200, 140), decode_steps=400)


RISING = curve((1, 0.05), (16, 0.1), (64, 0.9), margin=0.0)


def banded(costs, its=WINDOW, *, present=NO_SCHEDULE, most=4, method="draft_model", tolerance=TOLERANCE):
    policy = Policy(depth=DepthPolicy(tolerance=tolerance))
    known = knowledge(costs, method=method, architecture=Architecture.DENSE, schedule=present, policy=policy)
    return load_bands(WindowEvaluation(its, known), costs, most)


@pytest.mark.parametrize(
    ("costs", "tolerance", "expected"),
    [
        (RISING, 0.03, [(1, 23, 4), (24, 31, 3), (32, 47, 2), (48, 63, 1), (64, 64, 0)]),
        (RISING, 0.1, [(1, 47, 4), (48, 64, 1)]),
        (curve((1, 0.1), (64, 0.11), margin=0.0), 0.03, [(1, 64, 4)]),
        (curve((1, 0.9), (64, 1.0), margin=0.0), 0.03, [(1, 64, 0)]),
        # The cost jumps between 32 and 33, within the cell from 32 to 47; its middle decides.
        (curve((1, 0.05), (32, 0.05), (33, 0.9), (64, 1.0), margin=0.0), 0.03, [(1, 31, 4), (32, 64, 0)]),
        # Below the lowest known load its cost counts.
        (curve((8, 0.05), (32, 0.06), margin=0.0), 0.03, [(1, 32, 4)]),
    ],
    ids=["fewer, then none", "merged steps", "one number", "never pays", "jump", "lowest load"],
)
def test_the_present_number_and_that_of_the_load_below_stay_while_they_lose_little(
    costs, tolerance, expected
):
    bands = banded(costs, tolerance=tolerance)
    assert [(band.first, band.last, band.tokens) for band in bands] == expected
    several = BatchSchedule(
        tuple(first for first, _, _ in expected), tuple(tokens for *_, tokens in expected)
    )
    assert schedule_of(bands) == (NO_SCHEDULE if len(expected) == 1 else several)


def test_a_setting_that_suffices_everywhere_stays():
    chosen = schedule_of(banded(RISING))
    moved = BatchSchedule((*chosen.firsts[:-1], chosen.firsts[-1] - 2), chosen.tokens)
    bands = banded(RISING, present=moved)
    assert schedule_of(bands) == moved
    assert all(band.tokens == band.present_tokens for band in bands)


def test_bands_show_what_the_schedule_in_force_loses():
    below, above = banded(curve((1, 0.05), (64, 0.1), margin=0.0), present=BatchSchedule((1, 8), (4, 0)))
    assert [(band.first, band.last, band.tokens) for band in (below, above)] == [(1, 7, 4), (8, 64, 4)]
    assert (below.present_tokens, above.present_tokens, above.present_speedup_ratio) == (4, 0, 1.0)
    assert above.speedup_ratio == pytest.approx(3.3 / 1.31, rel=0.02)


def test_a_schedule_in_force_beyond_its_maximum_is_limited_to_it():
    (band,) = banded(curve((1, 0.05), (8, 0.05), margin=0.0), present=BatchSchedule((1,), (9,)), most=6)
    assert band.present_tokens == 4


def test_a_method_that_searches_counts_the_steps_that_find_something():
    half = window(200, 800, 460, positions=(160, 130, 100, 70), decode_steps=400)
    (found,), (always,) = (
        banded(curve((1, 0.05), (8, 0.05), margin=0.0), half, method=method)
        for method in ("ngram", "draft_model")
    )
    assert always.speedup_ratio > found.speedup_ratio > 1


def test_without_drafts_there_are_none():
    assert banded(RISING, window(0, 0, 0)) == ()


@given(
    costs=st.lists(st.floats(0.001, 1.0), min_size=2, max_size=5),
    firsts=st.sets(st.integers(2, 80), max_size=3),
    margin=st.floats(0, 0.3),
)
def test_the_schedule_loses_at_most_the_tolerance_at_every_load(costs, firsts, margin):
    points = curve(*((4.0**place, cost) for place, cost in enumerate(costs)), margin=margin)
    present = BatchSchedule((1, *sorted(firsts)), (4, 0, 2, 1)[: len(firsts) + 1])
    bands = banded(points, present=present)
    assert (bands[0].first, bands[-1].last) == (1, 4 ** (len(costs) - 1))
    assert all(before.last + 1 == after.first for before, after in pairwise(bands))
    for band in bands:
        # A band is made of whole cells, so its mean is within the tolerance of the mean of the best.
        assert band.speedup_ratio >= (1 - TOLERANCE) * max(1.0, band.present_speedup_ratio) - 1e-9
