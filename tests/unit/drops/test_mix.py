from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.drops.mix import LengthChange, TypeSums, decompose

names = st.sampled_from(["chat", "code", "summary", "unknown"])
sums = st.builds(
    lambda drafts, accepted: TypeSums(drafts, accepted * drafts), st.floats(1, 1e6), st.floats(0, 8)
)
mixes = st.dictionaries(names, sums, min_size=1)


def mean(mix):
    return sum(each.accepted for each in mix.values()) / sum(each.drafts for each in mix.values())


@given(mixes, mixes)
def test_the_parts_add_up_to_the_change(before, now):
    assert sum(decompose(before, now)) == pytest.approx(mean(now) - mean(before), abs=1e-9)


@given(mixes, mixes)
def test_the_change_back_has_the_opposite_parts(before, now):
    there, back = decompose(before, now), decompose(now, before)
    assert there.traffic == pytest.approx(-back.traffic, abs=1e-9)
    assert there.drafter == pytest.approx(-back.drafter, abs=1e-9)


@given(mixes, st.floats(0.1, 10))
def test_the_same_mix_with_other_acceptance_is_all_drafter(before, factor):
    now = {name: each._replace(accepted=factor * each.accepted) for name, each in before.items()}
    assert decompose(before, now).traffic == pytest.approx(0, abs=1e-9)


@given(mixes, st.lists(st.floats(0.1, 10), min_size=4, max_size=4))
def test_another_mix_with_the_same_acceptance_is_all_traffic(before, factors):
    now = {
        name: TypeSums(factor * each.drafts, factor * each.accepted)
        for (name, each), factor in zip(before.items(), factors, strict=False)
    }
    assert decompose(before, now).drafter == pytest.approx(0, abs=1e-9)


def test_a_type_that_disappears_is_traffic():
    before = {"easy": TypeSums(100, 200), "hard": TypeSums(100, 100)}
    assert decompose(before, {"hard": TypeSums(50, 50)}) == LengthChange(
        pytest.approx(-0.5), pytest.approx(0)
    )


def test_both_may_change():
    # Shares 1/2, 1/2 → 1/4, 3/4; easy 2 → 1.6, hard 1 → 1.
    before = {"easy": TypeSums(100, 200), "hard": TypeSums(100, 100)}
    now = {"easy": TypeSums(100, 160), "hard": TypeSums(300, 300)}
    assert decompose(before, now) == LengthChange(
        pytest.approx(-0.25 * 1.8 + 0.25 * 1.0), pytest.approx(0.375 * -0.4)
    )


@pytest.mark.parametrize("empty", [{}, {"easy": TypeSums(0, 0)}])
def test_nothing_is_known_without_drafts(empty):
    some = {"easy": TypeSums(100, 200)}
    assert decompose(empty, some) is None
    assert decompose(some, empty) is None
