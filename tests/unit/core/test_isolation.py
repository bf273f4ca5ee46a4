"""One failing item is omitted and reported now and then; memory of failures is bounded."""

from unittest.mock import AsyncMock

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.core.isolation import MAX_FAILING, REPORTED_EVERY, Isolation

ONE, TWO = {"target": "one", "zone": "not a name"}, {"target": "two"}


def fails(*_):
    raise ValueError("a detail")


@pytest.fixture
def isolation(clock):
    """Return an isolation, and the parts and items that it reports."""
    reports = []
    return Isolation(clock.monotonic, lambda part, item, _: reports.append((part, item))), reports


async def test_every_form_yields_the_results_of_items_that_work_and_omits_one_that_fails(isolation):
    errors, reports = isolation
    assert errors.attempt("page", ONE, lambda: 7) == 7
    assert await errors.attempt_async("page", AsyncMock(return_value=7), ONE) == 7
    assert list(errors.each("page", [1, 2], lambda _: ONE, lambda number: -number)) == [-1, -2]
    assert list(errors.whole("page", ONE, lambda: [1, 2])) == [1, 2]
    assert not reports
    assert errors.attempt("a", ONE, fails) is None
    assert await errors.attempt_async("b", AsyncMock(side_effect=ValueError), ONE) is None
    assert list(errors.each("c", [1, 0, 2], lambda _: ONE, lambda number: 2 // number)) == [2, 1]
    assert list(errors.whole("d", ONE, lambda: (2 // number for number in (1, 2, 0, 1)))) == [2, 1]
    assert reports == [(part, {"target": "one"}) for part in "abcd"]


def test_an_item_that_fails_is_reported_every_ten_minutes(isolation, clock):
    errors, reports = isolation
    numbers = []
    for passed in (0, REPORTED_EVERY - 1, 1, 1):
        clock.now += passed
        errors.attempt("page", ONE, fails)
        numbers.append(len(reports))
    assert numbers == [1, 1, 2, 2]
    assert reports == [("page", {"target": "one"})] * 2


def test_items_and_parts_fail_separately(isolation):
    errors, reports = isolation
    failures = [("page", ONE), ("page", TWO), ("log", ONE)]
    for part, item in failures:
        errors.attempt(part, item, fails)
    assert reports == [(part, {"target": item["target"]}) for part, item in failures]


def test_only_some_of_many_failing_items_are_reported_and_leave_room_after_that_time(isolation, clock):
    errors, reports = isolation
    for number in range(1000):
        errors.attempt("page", {"target": str(number)}, fails)
    assert len(reports) == MAX_FAILING
    clock.now += REPORTED_EVERY
    for name in ("another", "0"):
        errors.attempt("page", {"target": name}, fails)
    assert reports[MAX_FAILING:] == [("page", {"target": "another"}), ("page", {"target": "0"})]


def test_reports_are_log_lines_by_default(clock):
    with capture_logs() as logs:
        Isolation(clock.monotonic).attempt("page", ONE, fails)
    (failed,) = logs
    assert str(failed.pop("exc_info")) == "a detail"
    assert failed == {"event": "internal_error", "log_level": "error", "part": "page", "target": "one"}
