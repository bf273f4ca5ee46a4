"""Identities of one page's counters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.integrity import Check, broken_checks
from spec_decode_exporter.window.increments import first


@pytest.fixture(scope="module", name="broken")
def broken_fixture(make_sample):
    def broken(drafts, drafted, accepted, positions, *, running=0.0, tokens=None):
        sample = make_sample(drafts, drafted, accepted, positions=positions, running_requests=running)
        counts = first(sample, 0.0, 0.0)
        return broken_checks(counts, counts.tokens if tokens is None else tokens)

    return broken


def test_a_recorded_page_breaks_none(broken):
    assert broken(41, 122, 74, (29, 18, 14, 13)) == frozenset()


def test_a_server_that_has_not_begun_breaks_none(broken):
    assert broken(0, 0, 0, (0, 0, 0)) == broken(0, 0, 0, ()) == frozenset()


def test_positions_add_up(broken):
    assert broken(41, 122, 75, (29, 18, 14, 13)) == {Check.POSITIONS_ADD_UP}
    assert broken(41, 122, 73, (29, 18, 14, 13)) == {Check.POSITIONS_ADD_UP}


def test_an_engine_without_positions_breaks_no_check_of_positions(broken):
    assert broken(41, 122, 74, ()) == frozenset()


@pytest.mark.parametrize("positions", [(29, 30, 14, 13), (29, 18, 13, 14), (42, 0, 0, 0)])
def test_a_position_has_no_more_than_the_one_before_and_the_first_no_more_than_drafts(broken, positions):
    assert broken(41, 122, sum(positions), positions) == {Check.POSITIONS_DECREASE}


def test_no_more_is_accepted_than_drafted(broken):
    assert broken(41, 73, 74, (29, 18, 14, 13)) == {Check.ACCEPTED_WITHIN_DRAFTED}
    assert broken(41, 74, 74, (29, 18, 14, 13)) == frozenset()


def test_drafts_within_k_allow_for_a_torn_page(broken):
    # 16 drafts of 4 tokens, and two for each running request
    assert broken(1000, 4064, 0, (0,) * 4, tokens=4) == frozenset()
    assert broken(1000, 4065, 0, (0,) * 4, tokens=4) == {Check.DRAFTED_WITHIN_CONFIGURED}
    assert broken(1000, 4065, 0, (0,) * 4, tokens=4, running=1.0) == frozenset()


@given(
    st.lists(st.integers(0, 8), max_size=60),
    st.integers(1, 8),
    st.integers(0, 8),
)
def test_possible_counters_break_none(broken, lengths, tokens, shown):
    """However short the drafts and however few of the positions are shown yet."""
    lengths = [min(length, tokens) for length in lengths]
    counts = [sum(length > place for length in lengths) for place in range(tokens)]
    positions = counts[: max(shown, sum(map(bool, counts)))]
    assert broken(len(lengths), tokens * len(lengths), sum(lengths), positions) == frozenset()
