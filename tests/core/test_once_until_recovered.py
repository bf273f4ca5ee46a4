"""A lasting failure is logged once."""

from __future__ import annotations

from spec_decode_exporter.core.once_until_recovered import OnceUntilRecovered


def test_the_first_failure_is_logged_and_its_repetitions_are_not():
    once = OnceUntilRecovered()
    assert [once.failed("full") for _ in range(3)] == [True, False, False]


def test_a_failure_without_a_reason_is_logged_once_too():
    once = OnceUntilRecovered()
    assert [once.failed(), once.failed()] == [True, False]


def test_another_reason_is_logged():
    once = OnceUntilRecovered()
    assert [once.failed("full"), once.failed("read-only"), once.failed("full")] == [True, True, True]


def test_the_recovery_is_logged_once():
    once = OnceUntilRecovered()
    once.failed("full")
    assert [once.recovered(), once.recovered()] == [True, False]


def test_a_success_without_a_failure_is_not_logged():
    assert not OnceUntilRecovered().recovered()


def test_the_same_failure_is_logged_again_after_a_recovery():
    once = OnceUntilRecovered()
    once.failed("full")
    once.recovered()
    assert once.failed("full")


def test_it_is_failing_from_a_failure_to_the_recovery():
    once = OnceUntilRecovered()
    before = once.is_failing
    once.failed()
    during = once.is_failing
    once.recovered()
    assert (before, during, once.is_failing) == (False, True, False)
