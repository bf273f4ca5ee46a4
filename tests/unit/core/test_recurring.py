"""Recurring failures and work: what is logged, how often something may happen, what is believed."""

import pytest

from spec_decode_exporter.core.recurring import OnceUntilRecovered, TokenBucket, back_off, persistent


def test_a_failure_is_logged_when_it_begins_changes_its_reason_and_ends():
    failures = OnceUntilRecovered()
    assert not failures.recovered()
    assert [failures.failed(reason) for reason in ("", "", "refused", "refused", "timeout")] == [
        True, False, True, False, True,
    ]  # fmt: skip
    assert failures.reason == "timeout"
    assert [failures.recovered(), failures.recovered(), failures.reason] == [True, False, None]
    assert failures.failed("timeout")


async def test_a_burst_is_allowed_at_once_and_then_a_rate(clock):
    bucket = TokenBucket(3, 10.0, clock.monotonic)
    assert [bucket.take() for _ in range(5)] == [True, True, True, False, False]
    await clock.advance(25.0, turns=0)
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    await clock.advance(5.0, turns=0)
    assert bucket.take()
    await clock.advance(1000.0, turns=0)  # a long pause saves no more than a burst
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 0.5), (2, 1.0), (4, 4.0), (6, 16.0), (7, 30.0), (10**9, 30.0)]
)
def test_the_wait_doubles_with_each_failure_up_to_the_longest(failures, seconds):
    assert back_off(failures, 0.5, 30.0) == seconds
    assert back_off(failures, 60.0, 30.0) == 60.0  # never sooner than without a failure


@pytest.mark.parametrize(
    ("claims", "seconds", "counted"),
    [
        (["a", "a", "a", "a"], 20.0, ["", "", "a", "a"]),
        (["a", "a", "a", "", "a", "a", "a"], 20.0, ["", "", "a", "", "", "", "a"]),  # one test without it
        (["a", "ab", "ab", "b"], 20.0, ["", "", "a", "b"]),  # each for itself
        (["a", "b"], 0.0, ["a", "b"]),
    ],
)
def test_a_claim_counts_once_it_has_held_at_every_test_for_the_time(claims, seconds, counted):
    since = {}
    found = [set(persistent(since, each, 10.0 * number, seconds)) for number, each in enumerate(claims)]
    assert found == [set(each) for each in counted]
