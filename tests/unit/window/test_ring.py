"""Ring of running totals, and the increments that it shows."""

from bisect import bisect_left
from itertools import pairwise, zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.window.ring import Ring


def filled(rows, keep=10.0):
    ring = Ring(keep)
    for second, row in enumerate(rows):
        ring.add(float(second), second + 1.0, row, 0.5)
    return ring


def seen(increments, columns=3):
    """Return all that increments show: rows, sums, begins, and the place of a moment."""
    rows = [list(row) for row in zip(*map(increments.column, range(columns)), strict=True)]
    return rows, increments.sums(columns), increments.begins, increments.places([3.5])


def test_old_increments_are_removed_and_none_of_a_window_however_large_the_totals():
    ring = Ring(10.0)
    for second in range(300):
        ring.add(float(second), second + 1.0, [2**57, -5], 0.5)
        number = min(second + 1, 10)
        assert ring.since(second - 9.5).sums(2) == [number * 2**57, number * -5]
    assert len(ring.since(0.0)) <= 50


def test_totals_of_a_long_time_take_no_more_memory_than_those_of_a_window():
    ring = Ring(10.0)
    for second in range(600):
        ring.add(float(second), second + 1.0, [2**22], 0.5)
    [totals] = ring.since(0.0).totals
    assert (sum(ring.since(590.0).column(0)), totals.itemsize) == (10 * 2**22, 4)


ROWS = st.lists(st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=4), max_size=60)


@given(ROWS, st.integers(0, 65))
def test_sums_and_columns_are_those_of_each_increment(rows, edge):
    found = filled(rows, keep=20.0).since(float(edge))
    expected = rows[max(edge, len(rows) - len(found)) :]
    found_rows, sums, begins, _ = seen(found, 4)
    assert found_rows == [[*row, 0, 0, 0, 0][:4] for row in expected]
    totals = [sum(column) for column in zip_longest(*expected, [0] * 4, fillvalue=0)]
    assert sums[:4] == totals == [found.sum(column) for column in range(4)]
    assert begins == [float(edge + n) for n in range(len(found))] or edge < len(rows) - 20
    assert len(found) >= min(len(rows) - edge, 20)


@given(
    st.lists(st.lists(st.integers(0, 2**66), min_size=1, max_size=3), min_size=1, max_size=5),
    st.sets(st.integers(0, 99), max_size=2),
)
def test_increments_that_are_read_later_are_as_they_were(rows, clearings):
    """Whatever the ring does since: it grows, widens, removes old rows, subtracts, and is cleared."""
    ring, read = Ring(8.0), []
    for second in range(99):
        ring.add(float(second), second + 1.0, rows[second * len(rows) // 99], 0.5)
        increments = ring.since(float(second - second % 9))
        read.append((increments, seen(increments)))
        if second in clearings:
            ring.clear()
    assert all(seen(increments) == then for increments, then in read)


@pytest.mark.parametrize("count", [0, 1, 30, 31, 60, 61, 300])
@pytest.mark.parametrize("most", [1, 30])
def test_neighbours_are_merged_down_to_the_maximum(count, most):
    increments = filled([[n + 1] for n in range(count)], keep=300.0).since(0.0)
    merged, group = increments.merged(most), -(-count // most) or 1
    groups = [range(max(0, end - group), end) for end in range(count, 0, -group)][::-1]
    assert merged.column(0) == [sum(each) + len(each) for each in groups]
    assert merged.begins == [each[0] for each in groups]
    assert len(merged) <= most


@given(st.integers(0, 30), st.lists(st.floats(-2.0, 32.0), max_size=40).map(sorted))
def test_increments_are_added_up_between_moments_where_they_begin(count, moments):
    increments = filled([[n + 1, 1] for n in range(count)], keep=300.0).since(0.0)
    places = increments.places(moments)
    assert places == [bisect_left(range(count), moment) for moment in moments]
    ends = [0, *places, count]
    cells = increments.between(ends)
    assert cells.column(0) == [sum(range(a + 1, b + 1)) for a, b in pairwise(ends)]
    assert cells.column(1) == [b - a for a, b in pairwise(ends)]
