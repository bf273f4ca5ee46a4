"""0/0 has no value."""

from __future__ import annotations

import pytest

from spec_decode_exporter.figures.ratio import ratio


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"),
    [(1, 4, 0.25), (0, 4, 0.0), (0, 0, None), (3, 0, None), (None, 4, None), (1, None, None), (3, 0.0, None)],
)
def test_a_ratio_needs_both_sides_and_a_denominator_other_than_0(numerator, denominator, expected):
    assert ratio(numerator, denominator) == expected
