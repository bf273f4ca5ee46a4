from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.capacity import (
    MIN_ENGINES,
    PLACE_LABELS,
    PLACE_POSITIONS,
    WITHOUT_LIMIT,
    Capacity,
    container_memory,
    engines_that_fit,
    fair_share,
    places_of,
    shared_evenly,
)
from spec_decode_exporter.scrape.page.layout_map import MAX_POSITIONS

MIB = 2**20
DEMANDS = st.lists(st.integers(1, 300), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("text", "memory"), [("134217728\n", 134217728), ("max\n", None), ("", None), ("-1", None), ("²", None)]
)
def test_the_limit_of_the_container_is_read(tmp_path, text, memory):
    (tmp_path / "memory.max").write_text(text, encoding="utf-8")
    assert container_memory([tmp_path / "none", tmp_path / "memory.max"]) == memory


@given(DEMANDS, st.integers(1, 5000))
def test_the_fair_share_is_the_largest_that_fits(demands, places):
    def taken(share):
        return sum(min(demand, share) for demand in demands)

    share = fair_share(demands, places)
    assert share == 1 or taken(share) <= places
    assert taken(share) == sum(demands) or taken(share + 1) > places


@given(st.lists(st.lists(st.integers(), max_size=30), max_size=6), st.integers(0, 100))
def test_all_demanded_places_are_granted(groups, places):
    taken = shared_evenly(dict(enumerate(groups)), places)
    asked = sum(map(len, groups))
    if places >= len(groups):
        assert sum(map(len, taken.values())) == min(asked, places)
    assert all(list(items) == groups[key][: len(items)] for key, items in taken.items())


def test_a_target_with_many_engines_takes_no_place_from_others():
    capacity = Capacity(100)
    assert capacity.places("many", 256) == 100
    assert capacity.places("few", 8) == 8
    assert capacity.places("many", 256) == 92


def test_places_come_back_when_a_target_leaves_or_shows_fewer_engines():
    capacity = Capacity(10)
    capacity.places("a", 10)
    capacity.places("b", 10)
    assert capacity.places("a", 10) == 5
    capacity.release("b")
    assert capacity.places("a", 10) == 10
    capacity.places("b", 6)
    assert capacity.places("a", 2) == 2
    assert capacity.places("b", 6) == 6


def test_a_target_without_engines_gets_no_places_where_others_have_taken_all():
    capacity = Capacity(10)
    capacity.places("many", 256)
    assert capacity.places("none", 0) == 0


@pytest.mark.parametrize(
    ("positions", "label_bytes", "places"),
    [
        (0, 0, 1),
        (PLACE_POSITIONS, PLACE_LABELS, 1),
        (PLACE_POSITIONS + 1, 0, 2),
        (MAX_POSITIONS, 0, 5),
        (0, 2 * PLACE_LABELS, 1),
        (PLACE_POSITIONS, 8 * PLACE_LABELS, 8),
        (MAX_POSITIONS, 8 * PLACE_LABELS, 36),
    ],
)
def test_an_engine_with_more_positions_or_longer_labels_takes_more_places(positions, label_bytes, places):
    assert places_of(positions, label_bytes) == places


def test_a_share_that_no_engine_of_a_target_fits_into_goes_to_the_first_targets_that_can_use_it():
    capacity = Capacity(5)
    for target in "abcd":
        capacity.places(target, 2, 2)
    assert [capacity.places(target, 2, 2) for target in "abcd"] == [2, 2, 0, 0]
    assert capacity.places("small", 1) == 1
    assert [capacity.places(target, 2, 2) for target in "abcd"] == [2, 2, 0, 0]
    capacity.release("a")
    assert [capacity.places(target, 2, 2) for target in "bcd"] == [2, 2, 0]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 256), st.integers(0, 40)), max_size=60),
    st.integers(6, 400),
)
def test_places_for_engines_of_any_size_are_never_more_than_there_are(shown, most):
    capacity = Capacity(most)
    demands = {target: (demand, least) for target, demand, least in shown}
    for target, demand, least in shown:
        capacity.places(target, demand, least)
    assert sum(capacity.places(target, *demand) for target, demand in demands.items()) <= most


@pytest.mark.parametrize(
    ("memory", "engines"), [(0, MIN_ENGINES), (128 * MIB, 192), (2**62, WITHOUT_LIMIT), (None, WITHOUT_LIMIT)]
)
def test_a_container_has_room_for_engines_by_its_memory(memory, engines):
    assert engines_that_fit(memory) == engines
