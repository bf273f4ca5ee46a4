"""Token bucket: a burst at once, then a rate."""

from __future__ import annotations

from exporter.token_bucket import TokenBucket


async def test_a_burst_is_allowed_at_once_and_then_a_rate(clock):
    bucket = TokenBucket(3, 10.0, clock.monotonic)
    assert [bucket.take() for _ in range(5)] == [True, True, True, False, False]
    await clock.advance(25.0, turns=0)
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    await clock.advance(5.0, turns=0)
    assert bucket.take()


async def test_tokens_do_not_add_up_beyond_the_burst(clock):
    bucket = TokenBucket(2, 1.0, clock.monotonic)
    await clock.advance(1_000.0, turns=0)
    assert [bucket.take() for _ in range(3)] == [True, True, False]
