"""Token bucket: a burst at once, then a rate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.core.token_bucket import TokenBucket
from tests.conftest import FakeClock


async def test_a_burst_is_allowed_at_once_and_then_a_rate(clock):
    bucket = TokenBucket(3, 10.0, clock.monotonic)
    assert [bucket.take() for _ in range(5)] == [True, True, True, False, False]
    await clock.advance(25.0, turns=0)
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    await clock.advance(5.0, turns=0)
    assert bucket.take()


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(1, 10))
def test_the_burst_and_the_rate_limit_the_tokens(steps, burst):
    clock = FakeClock()
    begin, bucket, taken = clock.now, TokenBucket(burst, 8.0, clock.monotonic), 0
    for step in steps:
        clock.now += step
        taken += bucket.take()
        assert taken <= burst + (clock.now - begin) / 8
