from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.config.units import (
    DURATION_PATTERN,
    SIZE_PATTERN,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("500ms", 0.5),
        ("30s", 30),
        ("5m", 300),
        ("1h30m", 5400),
        ("1d", 86400),
        ("1w2d", 777600),
        ("1y", 31536000),
    ],
)
def test_durations_are_read_as_prometheus_reads_them(text, seconds):
    assert parse_duration(text) == seconds
    assert re.search(DURATION_PATTERN, text)


@pytest.mark.parametrize(
    "text", ["", "5", "1.5s", "5 s", "s", "30m1h", "-1s", "1s1s", "٣s", "5S", "1h ", "9" * 20 + "s", "1s\n"]
)
def test_what_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="such as 500ms, 30s"):
        parse_duration(text)


@pytest.mark.parametrize(
    "text", ["0s", "500ms", "30s", "5m", "1m30s", "1h30m", "36h", "1d", "8d", "1w", "1y", "1h1m1s1ms"]
)
def test_durations_are_written_as_prometheus_writes_them(text):
    assert format_duration(parse_duration(text)) == text


@given(st.integers(min_value=0, max_value=10**13))
def test_a_duration_that_is_written_and_read_again_is_the_same(milliseconds):
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("7B", 7),
        ("1KB", 1024),
        ("1KiB", 1024),
        ("16MB", 2**24),
        ("16MiB", 2**24),
        ("1GiB", 2**30),
        ("2TB", 2**41),
    ],
)
def test_sizes_are_powers_of_two_however_they_are_written(text, size):
    assert parse_size(text) == size
    assert re.search(SIZE_PATTERN, text)


@pytest.mark.parametrize(
    "text", ["", "16", "16M", "16mb", "1.5MiB", "16 MiB", "-1B", "MiB", "16iB", "16BB", "1B "]
)
def test_what_is_no_size_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="such as 512KiB or 16MiB"):
        parse_size(text)
    assert not re.fullmatch(SIZE_PATTERN, text)


@given(st.integers(min_value=0, max_value=10**12 - 1))
def test_a_size_that_is_written_and_read_again_is_the_same(size):
    assert parse_size(format_size(size)) == size
