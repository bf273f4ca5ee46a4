"""Number formats of reports and page."""

from math import inf

import pytest

from spec_decode_exporter.core import number_formats as numbers
from tests.every import every


@pytest.mark.parametrize(
    ("write", "arguments", "text"),
    [
        (numbers.share, (0.6124,), "0.612"),
        (numbers.percent, (0.4567,), "45.7 %"),
        (numbers.plain, (3.449,), "3.45"),
        (numbers.times, (2.006,), "2.01\u00d7"),
        (numbers.count, (4210.4,), "4,210"),
        (numbers.rate, (1234.5,), "1,234"),
        (numbers.rate, (12.34,), "12.3"),
        (numbers.rate, (0.25,), "0.25"),
        (numbers.rate, (-12.34,), "-12.3"),
        (numbers.duration, (1.234,), "1.23 s"),
        (numbers.duration, (0.01234,), "12.3 ms"),
        (numbers.duration, (0.000_123_4,), "0.123 ms"),
        (numbers.change, (1.04,), "+4 %"),
        (numbers.change, (0.88,), "-12 %"),
        (numbers.change, (1.004,), "same"),
        (numbers.gigabytes, (156e9,), "156 GB"),
        (numbers.gigabytes, (5.8e6,), "5.80 MB"),
        (numbers.gigabytes, (0,), "0.00 GB"),
        (numbers.gigabytes, (-12.34e9,), "-12.3 GB"),
        (numbers.plural, (0, "token"), "0 tokens"),
        (numbers.plural, (1, "token"), "1 token"),
        (numbers.plural, (4210, "token"), "4,210 tokens"),
        (numbers.long_time, (119.0,), "119 s"),
        (numbers.long_time, (7199.0,), "120 min"),
        (numbers.long_time, (172_800.0,), "2 days"),
        (numbers.utc_span, (1_790_000_000.0, 1_790_003_600.0), "21 Sep 14:13 to 15:13 UTC"),
        (numbers.utc_span, (1_790_000_000.0, 1_790_103_600.0), "21 Sep 14:13 to 22 Sep 19:00 UTC"),
        (numbers.ago, (-1.0,), "0 s ago"),
        (numbers.ago, (59.4,), "59 s ago"),
        (numbers.ago, (59.6,), "1 min 0 s ago"),
        (numbers.ago, (3780.0,), "1 h 3 min ago"),
        (numbers.bounds, (1.2, 1.35), "1.20 to 1.35"),
        (numbers.bounds, (0.6, 0.65, 3), "0.600 to 0.650"),
        (numbers.bounds, (None, 1.35), ""),
        (numbers.within, (0.025, 0.05, 1e-3, "ms"), "25 to 50 ms"),
        (numbers.within, (0.0, 0.3, 1e-3, "ms"), "< 300 ms"),
        (numbers.within, (2560.0, inf, 1.0, "s"), "> 2,560 s"),
    ],
)
def test_numbers_are_rounded_for_reading(write, arguments, text):
    assert write(*arguments) == text


@every([numbers.share, numbers.percent, numbers.plain, numbers.count, numbers.rate, numbers.duration])
def test_an_absent_value_is_a_dash(write):
    assert write(None) == numbers.ABSENT


@pytest.mark.parametrize(
    ("template", "values", "text"),
    [
        ("{n:plural draft token} instead of {m:.0f}", {"n": 1.0, "m": 4.0}, "1 draft token instead of 4"),
        ("since {t:clock}, {age:ago}", {"t": 1_790_000_000.4, "age": 34.4}, "since 14:13:20 UTC, 34 s ago"),
    ],
)
def test_a_template_writes_counts_with_their_nouns_times_and_ages(template, values, text):
    assert numbers.fill(template, values) == text
