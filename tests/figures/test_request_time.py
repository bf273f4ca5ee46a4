"""Times of requests: the mean time to first token, and its share."""

from __future__ import annotations

import pytest

from spec_decode_exporter.figures.request_time import (
    first_token_time_ratio,
    request_time,
    time_to_first_token_seconds,
)

SECOND = 10**9


def test_the_parts_are_the_sums_of_the_server(make_window):
    window = make_window(first_tokens=4, first_token_nanoseconds=2 * SECOND, decode_nanoseconds=6 * SECOND)
    assert request_time(window) == (2.0, 6.0)
    assert first_token_time_ratio(window) == 0.25
    assert time_to_first_token_seconds(window) == 0.5


@pytest.mark.parametrize(
    "counters",
    [
        {"first_token_nanoseconds": 1, "decode_nanoseconds": 1},
        {"first_tokens": 0, "first_token_nanoseconds": 0, "decode_nanoseconds": SECOND},
        {"first_tokens": 1, "decode_nanoseconds": SECOND},
        {"first_tokens": 1, "first_token_nanoseconds": SECOND},
        {"first_tokens": 1, "first_token_nanoseconds": 0, "decode_nanoseconds": 0},
    ],
    ids=str,
)
def test_without_a_part_or_a_request_the_share_is_unknown(make_window, counters):
    assert first_token_time_ratio(make_window(**counters)) is None


def test_the_time_to_first_token_needs_no_decode_times(make_window):
    assert time_to_first_token_seconds(make_window(first_tokens=2, first_token_nanoseconds=SECOND)) == 0.5
    assert time_to_first_token_seconds(make_window(first_tokens=0, first_token_nanoseconds=0)) is None
