"""Files, read up to a bound."""

from __future__ import annotations

import pytest

from spec_decode_exporter.core.bounded_file import size_text


@pytest.mark.parametrize(
    ("size", "text"), [(5, "5 bytes"), (2**10, "1 KiB"), (1500, "1500 bytes"), (4 * 2**20, "4 MiB")]
)
def test_a_limit_is_written_in_the_largest_unit_that_divides_it(size, text):
    assert size_text(size) == text
