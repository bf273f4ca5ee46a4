"""One failing item is omitted, logged once until it works again, and what is remembered of failures is bounded."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from spec_decode_exporter.core.internal_errors import (
    LOGGED_AGAIN_AFTER,
    MAX_LOGGED,
    RECOVERED_AFTER,
    InternalErrors,
)
from tests.conftest import FakeClock

ENGINE = {"target": "one", "model_name": "m", "engine": "0", "zone": "eu"}


def fails():
    raise ValueError("a detail")


@pytest.fixture
def errors(clock):
    return InternalErrors(clock.monotonic)


@pytest.fixture
def logs():
    with capture_logs() as logs:
        yield logs


def events(logs):
    return [log["event"] for log in logs]


def test_a_failure_is_logged_once_with_the_labels_that_name_the_item(errors, logs):
    assert [errors.attempt("page", ENGINE, fails) for _ in range(3)] == [None] * 3
    (log,) = logs
    assert (log.pop("event"), log.pop("log_level"), str(log.pop("exc_info"))) == (
        "internal_error",
        "error",
        "a detail",
    )
    assert log == {"part": "page", "target": "one", "model_name": "m", "engine": "0"}


def test_a_result_is_returned_and_not_logged(errors, logs):
    assert errors.attempt("page", ENGINE, lambda: 5) == 5
    assert not logs


def test_its_recovery_is_logged_a_minute_after_the_last_failure(errors, logs, clock):
    errors.attempt("page", ENGINE, fails)
    clock.now += RECOVERED_AFTER
    errors.attempt("page", ENGINE, fails)
    clock.now += RECOVERED_AFTER
    errors.attempt("page", ENGINE, int)
    assert errors.is_failing("page")
    clock.now += 1
    errors.attempt("page", ENGINE, int)
    errors.attempt("page", ENGINE, int)
    assert events(logs) == ["internal_error", "internal_error_ended"]
    assert not errors.is_failing("page")
    errors.attempt("page", ENGINE, fails)
    assert events(logs)[2:] == ["internal_error"]


def test_parts_and_items_are_separate(errors, logs):
    errors.attempt("page", ENGINE, fails)
    errors.attempt("page", {**ENGINE, "engine": "1"}, fails)
    errors.attempt("report", ENGINE, fails)
    assert [(log["part"], log["engine"]) for log in logs] == [("page", "0"), ("page", "1"), ("report", "0")]


def test_a_failure_after_a_long_time_is_logged_again(errors, logs, clock):
    errors.attempt("page", ENGINE, fails)
    clock.now += LOGGED_AGAIN_AFTER + 1
    errors.attempt("page", ENGINE, fails)
    assert events(logs) == ["internal_error"] * 2


def test_many_failing_items_are_omitted_and_few_of_them_logged(errors, logs, clock):
    for number in range(1000):
        errors.attempt("page", {"target": str(number)}, fails)
    assert len(logs) == MAX_LOGGED
    clock.now += LOGGED_AGAIN_AFTER + 1
    errors.attempt("page", {"target": "another"}, fails)
    assert logs[-1]["target"] == "another"


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 99), st.booleans(), st.floats(0, 700))))
def test_the_stored_failures_are_bounded(calls):
    clock = FakeClock()
    errors = InternalErrors(clock.monotonic)
    with capture_logs() as logs:
        for part, item, works, passed in calls:
            clock.now += passed
            assert errors.attempt(part, {"target": str(item)}, (lambda: 1) if works else fails) == (
                1 if works else None
            )
    assert all(len(failed) <= MAX_LOGGED for failed in errors._failed_at.values())
    for name in {(log["part"], log["target"]) for log in logs}:
        own = [log["event"] for log in logs if (log["part"], log["target"]) == name]
        assert own[0] == "internal_error"
        assert ("internal_error_ended",) * 2 not in set(pairwise(own))


def test_the_other_items_are_yielded(errors, logs):
    found = errors.each("page", [1, 0, 2, 0], lambda item: {"target": str(item)}, lambda item: 10 // item)
    assert list(found) == [10, 5]
    assert [log["target"] for log in logs] == ["0"]


def test_an_error_of_the_consumer_is_not_an_error_of_an_item(errors, logs):
    def read():
        for item in errors.each("page", [1], lambda _: {}, lambda item: item):
            item / 0

    with pytest.raises(ZeroDivisionError):
        read()
    assert not logs


def test_elements_before_an_error_of_an_iterable_are_yielded(errors, logs):
    def numbers():
        yield 1
        raise ValueError

    assert list(errors.whole("page", {"target": "one"}, numbers)) == [1]
    assert [log["target"] for log in logs] == ["one"]
    assert list(errors.whole("page", {"target": "two"}, lambda: [2])) == [2]


async def test_awaited_work_is_isolated(errors, logs):
    async def works():
        return 5

    async def raises():
        raise ValueError

    assert await errors.attempt_async("saving", works) == 5
    assert await errors.attempt_async("saving", raises, {"target": "one"}) is None
    assert [(log["part"], log["target"]) for log in logs] == [("saving", "one")]
