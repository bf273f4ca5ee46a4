from __future__ import annotations

from spec_decode_exporter.web.page import page_numbers
from spec_decode_exporter.web.page.page_numbers import ago, duration, moment, rate


def test_no_value_is_not_0():
    assert page_numbers.number(None, page_numbers.plain) == page_numbers.NOTHING
    assert page_numbers.between(None, None, page_numbers.plain) == ""


def test_a_value_that_changes_often_keeps_its_width():
    assert (rate(1677.74), duration(0.01234), duration(1.5)) == (
        "1\u202f677.7\u202f/s",
        "12.3\u202fms",
        "1.50\u202fs",
    )


def test_moments_are_written_as_an_age():
    assert [ago(seconds) for seconds in (0.4, 3, 59.9, 90, 7200, 200_000)] == [
        "just now",
        "3 s ago",
        "59 s ago",
        "1 min ago",
        "2 h ago",
        "2 d ago",
    ]
    assert 'datetime="2026-09-21T14:13:20.000+00:00"' in moment(1_790_000_000, 1_790_000_009)
