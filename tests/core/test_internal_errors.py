"""One failing item is omitted, logged once until it works again, and what is remembered of failures is bounded."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.core.internal_errors import (
    LOGGED_AGAIN_AFTER,
    MAX_LOGGED,
    InternalErrors,
)


def fails():
    raise ValueError("a detail")


@pytest.fixture
def errors(clock):
    return InternalErrors(clock.monotonic)


@pytest.fixture
def logs():
    with capture_logs() as logs:
        yield logs


def test_many_failing_items_are_omitted_and_few_of_them_logged(errors, logs, clock):
    for number in range(1000):
        errors.attempt("page", {"target": str(number)}, fails)
    assert len(logs) == MAX_LOGGED
    clock.now += LOGGED_AGAIN_AFTER + 1
    errors.attempt("page", {"target": "another"}, fails)
    assert logs[-1]["target"] == "another"


def test_elements_before_an_error_of_an_iterable_are_yielded(errors, logs):
    def numbers():
        yield 1
        raise ValueError

    assert list(errors.whole("page", {"target": "one"}, numbers)) == [1]
    assert [log["target"] for log in logs] == ["one"]
    assert list(errors.whole("page", {"target": "two"}, lambda: [2])) == [2]
