"""Times of requests: the mean time to first token, and its share."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_decode_exporter.core.cooperative_yield import finish
from spec_decode_exporter.figures.request_time import (
    first_token_time_ratio,
    request_time,
    time_to_first_token_seconds,
)
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.scrape.page.sample_reader import SampleReader

PAGES = Path(__file__).parents[1] / "pages"
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


@pytest.mark.parametrize(
    "name", ["vllm-0.32.0-python-ngram-k4.prom", "vllm-0.32.0-python-dp2-multiapi-k3.prom"]
)
def test_on_a_recorded_page_the_parts_add_up_to_the_end_to_end_time(name):
    page = (PAGES / name).read_bytes()
    for sample in finish(SampleReader().read(page, with_latencies=False)).samples.values():
        parts = sample[Counter.FIRST_TOKEN_NANOSECONDS] + sample[Counter.DECODE_NANOSECONDS]
        assert parts == pytest.approx(sample[Counter.END_TO_END_NANOSECONDS], rel=1e-3)
