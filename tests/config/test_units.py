from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.units import (
    DURATION_PATTERN,
    PARAMETERS_PATTERN,
    SIZE_PATTERN,
    format_duration,
    format_parameters,
    format_size,
    parse_duration,
    parse_parameters,
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
def test_an_invalid_duration_is_rejected_with_an_example(text):
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
def test_an_invalid_size_is_rejected_with_an_example(text):
    with pytest.raises(ValueError, match="such as 512KiB or 16MiB"):
        parse_size(text)
    assert not re.fullmatch(SIZE_PATTERN, text)


@given(st.integers(min_value=0, max_value=10**12 - 1))
def test_a_size_that_is_written_and_read_again_is_the_same(size):
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8B", 8e9),
        ("8b", 8e9),
        ("1.5B", 1.5e9),
        ("500M", 5e8),
        ("70k", 7e4),
        ("1T", 1e12),
        ("8000000000", 8e9),
        ("0.3", 0.3),
        ("0", 0.0),
    ],
)
def test_parameters_are_read_in_the_syntax_of_model_names(text, count):
    assert parse_parameters(text) == count
    assert re.search(PARAMETERS_PATTERN, text)


@pytest.mark.parametrize(
    "text", ["", "B", "8 B", "8GB", "-8B", "1e9", "8B\n", "٣B", "1.B", ".5B", "9" * 20, "nan"]
)
def test_an_invalid_number_of_parameters_is_rejected_with_an_example(text):
    with pytest.raises(ValueError, match=r"write it as 500M, 1\.5B"):
        parse_parameters(text)
    assert not re.search(PARAMETERS_PATTERN, text) or text.endswith("\n")


@pytest.mark.parametrize(
    "text", ["8B", "1.5B", "500M", "1T", "999", "0.3", "0", "0.000000001", "1.234567891B"]
)
def test_parameters_are_written_in_the_largest_unit(text):
    assert format_parameters(parse_parameters(text)) == text


@given(st.integers(0, 10**15))
def test_parameters_that_are_written_and_read_again_are_the_same(count):
    assert parse_parameters(format_parameters(count)) == count
