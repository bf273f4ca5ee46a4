"""Number of engines by the memory of the container."""

from __future__ import annotations

import pytest

from spec_decode_exporter.monitor.fleet import MIN_ENGINES, WITHOUT_LIMIT, container_memory, engines_that_fit

MIB = 2**20


@pytest.mark.parametrize(
    ("text", "memory"), [("134217728\n", 134217728), ("max\n", None), ("", None), ("-1", None), ("²", None)]
)
def test_the_limit_of_the_container_is_read(tmp_path, text, memory):
    (tmp_path / "memory.max").write_text(text, encoding="utf-8")
    assert container_memory([tmp_path / "none", tmp_path / "memory.max"]) == memory


@pytest.mark.parametrize(
    ("memory", "engines"), [(0, MIN_ENGINES), (128 * MIB, 192), (2**62, WITHOUT_LIMIT), (None, WITHOUT_LIMIT)]
)
def test_a_container_has_room_for_engines_by_its_memory(memory, engines):
    assert engines_that_fit(memory) == engines
