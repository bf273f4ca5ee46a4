from __future__ import annotations

import pytest

from spec_decode_exporter.web.page import page_numbers
from spec_decode_exporter.web.page.page_numbers import ago, clock_time, moment


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (page_numbers.percent, 0.4567, "45.7\u202f%"),
        (page_numbers.times, 2.006, "2.01\u00d7"),
        (page_numbers.whole, 1234567, "1\u202f234\u202f567"),
        (page_numbers.rate, 1677.74, "1\u202f677.7\u202f/s"),
        (page_numbers.duration, 0.0129, "12.9\u202fms"),
        (page_numbers.duration, 1.5, "1.50\u202fs"),
    ],
)
def test_numbers_are_rounded_for_reading(write, value, text):
    assert write(value) == text


def test_the_element_has_the_exact_value():
    assert page_numbers.number(1 / 3, page_numbers.plain) == '<data value="0.3333333333333333">0.33</data>'


def test_no_value_is_not_0():
    assert page_numbers.number(None, page_numbers.plain) == page_numbers.NOTHING
    assert page_numbers.between(None, None, page_numbers.plain) == ""


def test_moments_are_written_as_an_age():
    assert [ago(seconds) for seconds in (0.4, 3, 59.9, 90, 7200, 200_000)] == [
        "just now",
        "3 s ago",
        "59 s ago",
        "1 min ago",
        "2 h ago",
        "2 d ago",
    ]
    assert clock_time(1_790_000_000) == "14:13:20 UTC"
    assert 'datetime="2026-09-21T14:13:20.000+00:00"' in moment(1_790_000_000, 1_790_000_009)
