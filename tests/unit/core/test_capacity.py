from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.capacity import (
    MIN_ENGINES,
    WITHOUT_LIMIT,
    container_memory,
    engines_that_fit,
    fair_share,
)

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


@pytest.mark.parametrize(
    ("memory", "engines"), [(0, MIN_ENGINES), (128 * MIB, 192), (2**62, WITHOUT_LIMIT), (None, WITHOUT_LIMIT)]
)
def test_a_container_has_room_for_engines_by_its_memory(memory, engines):
    assert engines_that_fit(memory) == engines
