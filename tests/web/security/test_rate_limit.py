from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter.web.security.rate_limit import TokenBucket


class Time:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_a_burst_passes_and_then_one_an_interval():
    time = Time()
    bucket = TokenBucket(2.0, 3, time)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    time.now += 1.9
    assert not bucket.take()
    time.now += 0.1
    assert [bucket.take(), bucket.take()] == [True, False]


def test_a_long_rest_gives_no_more_than_the_burst():
    time = Time()
    bucket = TokenBucket(1.0, 2, time)
    time.now += 1e6
    assert [bucket.take() for _ in range(3)] == [True, True, False]


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(1, 10))
def test_never_more_pass_than_the_burst_and_one_an_interval(steps, burst):
    time, begin = Time(), 1000.0
    bucket = TokenBucket(8.0, burst, time)
    passed = 0
    for step in steps:
        time.now += step
        passed += bucket.take()
        assert passed <= burst + (time.now - begin) / 8
