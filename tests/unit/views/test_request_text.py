from __future__ import annotations

import pytest

from spec_decode_exporter.views.request_text import why_unclear


@pytest.mark.parametrize(
    ("drafts", "evaluated", "lower", "upper", "expected"),
    [
        (0, 0, None, None, "nothing was drafted"),
        (900, 0, None, None, "the cost of drafting is unknown"),
        (900, 29, None, None, "too few requests"),
        (900, 40, 0.99, 1.01, "the bounds include 1"),
        (900, 40, 1.0, 1.01, "the bounds include 1"),
        (900, 40, 0.9, 0.92, "the cost of drafting is only a default"),
    ],
)
def test_the_reason_for_an_unclear_effect(drafts, evaluated, lower, upper, expected):
    assert why_unclear(drafts, evaluated, lower, upper) == expected
