"""Pathological requests: detection, and its rate of false alarms."""

from __future__ import annotations

import random
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.requests.pathology import Pathology, pathology, share_bounds


@pytest.mark.parametrize(
    ("drafts", "draft_tokens", "accepted_tokens", "expected"),
    [
        (100, 400, 0, Pathology.REJECTED),
        (73, 292, 0, Pathology.REJECTED),
        (72, 288, 0, Pathology.NONE),  # too few drafts
        (100, 400, 40, Pathology.NONE),
        (1000, 4000, 120, Pathology.REJECTED),
        (100, 400, 400, Pathology.REPETITIVE),
        (1000, 4000, 3880, Pathology.REPETITIVE),
        (72, 288, 288, Pathology.NONE),
        (100, 400, 250, Pathology.NONE),
        (0, 0, 0, Pathology.NONE),
        (10, 0, 0, Pathology.NONE),
    ],
)
def test_almost_none_or_almost_all_of_many_drafts_is_pathological(
    drafts, draft_tokens, accepted_tokens, expected
):
    assert pathology(drafts, draft_tokens, accepted_tokens) is expected


def test_a_request_at_the_limit_is_pathological_by_chance_in_at_most_5_percent():
    generator = random.Random(7)
    alarms = 0
    for _ in range(2000):
        # Whole drafts are accepted or rejected: the strongest dependence of tokens.
        accepted = 4 * sum(generator.random() < 0.05 for _ in range(120))
        alarms += pathology(120, 480, accepted) is Pathology.REJECTED
    assert alarms / 2000 <= 0.05


@given(st.floats(0, 1), st.integers(1, 10_000))
def test_the_bounds_contain_the_share(share, number):
    lower, upper = share_bounds(share, number)
    assert -1e-9 <= lower <= share + 1e-9
    assert share - 1e-9 <= upper <= 1 + 1e-9


@given(st.floats(0, 1), st.integers(1, 10_000))
def test_the_bounds_solve_the_equation_of_wilson(share, number):
    # Wilson's bounds solve |share - p| = z √(p (1 - p) / n) for p.
    for bound in share_bounds(share, number):
        possible = min(max(bound, 0.0), 1.0)
        away = 1.959964 * sqrt(possible * (1 - possible) / number)
        assert abs(share - possible) == pytest.approx(away, abs=1e-6)
