from __future__ import annotations

from math import inf

import pytest

from spec_decode_exporter.core import number_formats as numbers


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (numbers.share, 0.6124, "0.612"),
        (numbers.percent, 0.4567, "45.7 %"),
        (numbers.plain, 3.449, "3.45"),
        (numbers.times, 2.006, "2.01\u00d7"),
        (numbers.count, 4210.4, "4,210"),
        (numbers.rate, 1234.5, "1,234"),
        (numbers.rate, 12.34, "12.3"),
        (numbers.rate, 0.25, "0.25"),
        (numbers.signed_rate, -12.34, "-12.3"),
        (numbers.fixed_rate, 1677.74, "1,677.7 /s"),
        (numbers.duration, 1.234, "1.23 s"),
        (numbers.duration, 0.01234, "12.3 ms"),
        (numbers.duration, 0.000_123_4, "0.123 ms"),
        (numbers.fixed_duration, 0.01234, "12.3 ms"),
        (numbers.fixed_duration, 1.5, "1.50 s"),
        (numbers.change, 1.04, "+4 %"),
        (numbers.change, 0.88, "-12 %"),
        (numbers.change, 1.004, "same"),
        (numbers.gigabytes, 156e9, "156 GB"),
        (numbers.gigabytes, 5.8e6, "5.80 MB"),
        (numbers.gigabytes, 0, "0.00 GB"),
        (numbers.gigabytes, -12.34e9, "-12.3 GB"),
        (numbers.kilobytes, 131_072, "131.1 kB"),
        (numbers.parameters, 70_600_000_000, "70.6B"),
        (numbers.parameters, 999_900_000, "1B"),
        (numbers.parameters, 596_000_000, "596M"),
    ],
)
def test_numbers_are_rounded_for_reading(write, value, text):
    assert write(value) == text


@pytest.mark.parametrize(
    "write",
    [
        numbers.share,
        numbers.percent,
        numbers.plain,
        numbers.count,
        numbers.rate,
        numbers.duration,
        numbers.kilobytes,
    ],
)
def test_an_absent_value_is_a_dash(write):
    assert write(None) == numbers.ABSENT


@pytest.mark.parametrize(("number", "text"), [(0, "0 tokens"), (1, "1 token"), (4210, "4,210 tokens")])
def test_a_count_has_the_singular_or_plural_of_its_noun(number, text):
    assert numbers.plural(number, "token") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, "0 s ago"),
        (59.4, "59 s ago"),
        (59.6, "1 min 0 s ago"),
        (125.0, "2 min 5 s ago"),
        (3780.0, "1 h 3 min ago"),
    ],
)
def test_an_age_has_its_two_largest_units(seconds, text):
    assert numbers.ago(seconds) == text


def test_unknown_bounds_are_empty():
    assert numbers.bounds(1.2, 1.35) == "1.20 to 1.35"
    assert numbers.bounds(0.6, 0.65, 3) == "0.600 to 0.650"
    assert numbers.bounds(None, 1.35) == ""


def test_the_edges_of_a_bucket_have_one_unit():
    assert numbers.duration_within(0.025, 0.05) == "25 to 50 ms"
    assert numbers.duration_within(0.0, 0.3) == "< 300 ms"
    assert numbers.duration_within(0.3, 1.0) == "0.3 to 1 s"
    assert numbers.duration_within(2560.0, inf) == "> 2,560 s"


@pytest.mark.parametrize(
    ("template", "values", "text"),
    [
        ("{n:plural draft token} instead of {m:.0f}", {"n": 1.0, "m": 4.0}, "1 draft token instead of 4"),
        ("{n:plural draft token} instead of {m:.0f}", {"n": 2.0, "m": 4.0}, "2 draft tokens instead of 4"),
        ("since {t:clock}, {age:ago}", {"t": 1_790_000_000.4, "age": 34.4}, "since 14:13:20 UTC, 34 s ago"),
    ],
)
def test_a_template_writes_counts_with_their_nouns_times_and_ages(template, values, text):
    assert numbers.fill(template, values) == text
