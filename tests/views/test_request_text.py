from __future__ import annotations

import pytest

from spec_decode_exporter.views.request_text import why_unclear


@pytest.mark.parametrize(
    ("drafts", "evaluated", "lower", "upper", "expected"),
    [
        (0, 0, None, None, "nothing was drafted"),
        (900, 0, None, None, "what drafting costs is not known"),
        (900, 29, None, None, "too few requests"),
        (900, 40, 0.99, 1.01, "the bounds lie on both sides of 1"),
        (900, 40, 1.0, 1.01, "the bounds lie on both sides of 1"),
        (900, 40, 0.9, 0.92, "what drafting costs is only a guess"),
    ],
)
def test_why_nobody_can_say_who_gains_is_said(drafts, evaluated, lower, upper, expected):
    assert why_unclear(drafts, evaluated, lower, upper) == expected
