"""Ring of running totals: each sum up to now is one subtraction."""

from __future__ import annotations

from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.window.ring import Ring, Rows, difference


def filled(increments, keep=10.0):
    ring = Ring(keep)
    for second, increment in enumerate(increments):
        ring.add(float(second), second + 1.0, [increment], 0.5)
    return ring


def rows_since(ring, edge):
    (rows,) = ring.since(edge)
    return rows


def blocks(ring):
    (totals,) = ring._totals
    return totals._blocks


def total(ring, edge):
    rows = rows_since(ring, edge)
    return difference(rows[0], rows[-1])


def test_the_sum_is_over_the_increments_that_begin_at_the_edge_or_later():
    ring = filled([[1], [10], [100]])
    assert total(ring, 0.0) == [111]
    assert total(ring, 0.5) == [110]
    assert total(ring, 1.0) == [110]
    assert total(ring, 2.0) == [100]


def test_a_window_after_the_last_increment_is_empty():
    assert len(rows_since(filled([[1], [2]]), 5.0)) == 1


def test_an_empty_ring_has_no_increments():
    assert len(rows_since(Ring(10.0), 0.0)) == 1


def test_it_keeps_no_more_than_what_begins_within_its_length_and_a_margin():
    ring = filled([[1]] * 5000)
    assert len(ring) == 10
    assert total(ring, 4990.0) == [10]


def test_a_shorter_length_applies_with_the_next_increment():
    ring = filled([[1]] * 10)
    ring.keep = 3.0
    ring.add(10.0, 11.0, [[1]], 0.5)
    assert len(ring) == 3


def test_a_column_that_comes_later_was_0_before():
    ring = filled([[1], [1, 5], [1, 5, 7]])
    assert total(ring, 0.0) == [3, 10, 7]
    assert total(ring, 1.0) == [2, 10, 7]


def test_a_missing_column_adds_nothing():
    assert total(filled([[1, 5], [1]]), 0.0) == [2, 5]


def test_totals_are_reset_before_they_exceed_64_bits():
    ring = filled([[2**61], [2**61], [2**61], [3]])
    # With the third they could leave them with the next one; it and what follows are kept, exactly.
    assert total(ring, 0.0) == [2**61 + 3]


def test_a_cleared_ring_is_empty():
    ring = filled([[1], [2]])
    ring.clear()
    assert len(ring) == 0
    ring.add(2.0, 3.0, [[5]], 0.5)
    assert total(ring, 0.0) == [5]


@given(
    st.lists(st.lists(st.integers(0, 2**53), min_size=1, max_size=4), max_size=40),
    st.integers(0, 45),
)
def test_sums_are_those_of_adding_up_one_by_one(increments, edge):
    ring = filled(increments, keep=20.0)
    expected = [0] * max(map(len, increments), default=0)
    newest = len(increments)
    for second, increment in enumerate(increments):
        if second >= max(edge, newest - 20.5):
            for column, value in enumerate(increment):
                expected[column] += value
    found = total(ring, float(edge))
    assert found == expected or not increments


def test_totals_that_grow_without_end_lose_no_increment():
    ring = filled([[2**57]] * 40)
    assert total(ring, 38.0) == [2**58]
    assert len(rows_since(ring, 30.0)) == 11


def test_a_sum_beyond_64_bits_resets_the_ring():
    ring = filled([[2**61]] * 9)
    assert len(rows_since(ring, 0.0)) < 9
    assert total(ring, 8.0) == [2**61]


HUGE = st.one_of(
    st.integers(0, 9),
    st.sampled_from([2**31, 2**53, 2**61, 2**62 - 1, 2**62]),
    st.integers(-(2**62), 2**62),
    st.sampled_from([2**62 + 1, 2**63 - 1, 2**63, -(2**63), 10**30]),
)


@given(
    st.lists(st.tuples(*[st.lists(HUGE, min_size=1, max_size=3)] * 2), min_size=1, max_size=40),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_all_groups_have_the_same_increments_whatever_their_numbers(increments, edges):
    ring, kept = Ring(12.0, groups=2), []
    for second, increment in enumerate(increments):
        before = len(ring)
        ring.add(float(second), second + 1.0, increment, 0.5)
        kept = [one for one in [*kept, (second, increment)] if one[0] >= second + 1 - 12.5]
        kept = kept[-len(ring) :] if len(ring) else []  # the sums of those before have more than 64 bits
        assert len(ring) <= before + 1
        for edge in (0, *edges):
            found = [one for begin, one in kept if begin >= edge]
            groups = ring.since(float(edge))
            assert {len(rows) for rows in groups} == {len(found) + 1}
            assert len(ring.begins(float(edge))) == len(found)
            for group, rows in enumerate(groups):
                columns = zip_longest(*(one[group] for one in found), fillvalue=0)
                assert [*difference(rows[0], rows[-1]), *[0] * 3][:3] == [*map(sum, columns), 0, 0, 0][:3]


def test_an_increment_that_no_array_holds_is_left_out_and_the_next_counts():
    ring = filled([[5], [2**63], [7]])
    assert total(ring, 0.0) == [7]
    assert len(ring) == 1


@given(st.lists(st.lists(st.integers(), max_size=5), max_size=40), st.data())
def test_rows_hold_integers_of_any_size(given_rows, data):
    rows = Rows.of(given_rows)
    expected = [[*row, *[0] * (rows.width - len(row))] for row in given_rows]
    assert [list(row) for row in rows] == expected
    places = data.draw(st.lists(st.sampled_from(range(len(expected))))) if expected else []
    assert [list(row) for row in rows.at(places)] == [expected[place] for place in places]
    assert [list(rows.column(column)) for column in range(rows.width)] == [
        [row[column] for row in expected] for column in range(rows.width)
    ]


@given(st.lists(st.lists(st.integers(-(2**62), 2**62), max_size=5), max_size=12), st.integers(0, 12))
def test_rows_hold_what_they_were_made_of_with_0_where_one_is_shorter(given_rows, first):
    rows = Rows.of(given_rows)
    width = max(1, *map(len, given_rows)) if given_rows else 1
    expected = [row + [0] * (width - len(row)) for row in given_rows]
    assert [list(row) for row in rows] == expected
    assert [list(rows.column(column)) for column in range(width + 1)] == [
        [row[column] if column < width else 0 for row in expected] for column in range(width + 1)
    ]
    later = Rows(rows._blocks, rows.width, min(first, len(rows)), len(rows))
    assert [list(row) for row in later] == expected[first:]
    assert list(later.column(0)) == [row[0] for row in expected[first:]]


@given(st.lists(st.lists(st.integers(), min_size=2, max_size=2), min_size=1), st.data())
def test_rows_are_selected_by_their_places(given_rows, data):
    given_rows = [[value % 2**60 for value in row] for row in given_rows]
    places = data.draw(st.lists(st.integers(0, len(given_rows) - 1)))
    assert [list(row) for row in Rows.of(given_rows).at(places)] == [given_rows[place] for place in places]


def test_a_row_beyond_the_last_raises_an_error():
    rows = Rows.of([[1], [2]])
    assert list(rows[-1]) == [2]
    with pytest.raises(IndexError):
        rows[2]


def test_earlier_views_do_not_change_with_later_increments():
    ring = filled([[1], [2]])
    rows = rows_since(ring, 0.0)
    ring.add(2.0, 3.0, [[4, 5]], 0.5)
    assert [list(row) for row in rows] == [[0], [1], [3]]


@given(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), min_size=1, max_size=60), st.data())
def test_views_never_change(increments, data):
    ring, asked = Ring(8.0), []
    for second, increment in enumerate(increments):
        ring.add(float(second), second + 1.0, [increment], 0.5)
        rows = rows_since(ring, float(data.draw(st.integers(0, second))))
        asked.append((rows, [list(row) for row in rows]))
    assert all([list(row) for row in rows] == then for rows, then in asked)


def test_the_memory_of_removed_rows_is_released():
    ring = filled([[1, 2, 3]] * 5000)
    assert sum(map(len, blocks(ring))) <= 3 * (10 + 1 + 16)


def test_totals_are_held_in_32_bits_until_they_need_more():
    ring = filled([[2**29]] * 3)
    assert {block.itemsize for block in blocks(ring)} == {4}
    ring = filled([[2**30]] * 5)
    assert {block.itemsize for block in blocks(ring)} == {8}
    assert [list(row) for row in rows_since(ring, 0.0)] == [[2**30 * row] for row in range(6)]


def test_totals_that_grow_for_long_begin_at_the_oldest_row_and_stay_in_32_bits():
    ring = filled([[2**27]] * 500, keep=8.0)
    assert {block.itemsize for block in blocks(ring)} == {4}
    assert total(ring, 492.0) == [8 * 2**27]


def test_totals_below_0_are_held_too():
    assert total(filled([[-(2**40)], [5]]), 0.0) == [5 - 2**40]
