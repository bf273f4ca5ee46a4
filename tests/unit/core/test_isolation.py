"""One failing item is omitted and reported now and then; memory of failures is bounded."""

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.core.isolation import MAX_FAILING, REPORTED_EVERY, Isolation

ONE, TWO = {"target": "one", "zone": "not a name"}, {"target": "two"}


def fails(*_):
    raise ValueError("a detail")


def some_of(number):
    yield from range(number)
    raise ValueError


@pytest.fixture
def reports():
    return []


@pytest.fixture
def errors(clock, reports):
    return Isolation(clock.monotonic, lambda *report: reports.append(report))


def told(reports):
    return [(part, item["target"]) for part, item, _ in reports]


async def test_every_form_yields_the_results_of_items_that_work_and_omits_one_that_fails(errors, reports):
    async def seven():
        return 7

    async def fails_later():
        fails()

    assert errors.attempt("page", ONE, lambda: 7) == 7
    assert await errors.attempt_async("page", seven, ONE) == 7
    assert list(errors.each("page", [1, 2], lambda _: ONE, lambda number: -number)) == [-1, -2]
    assert list(errors.whole("page", ONE, lambda: [1, 2])) == [1, 2]
    assert not reports
    assert errors.attempt("a", ONE, fails) is None
    assert await errors.attempt_async("b", fails_later, ONE) is None
    assert list(errors.each("c", [1, 0, 2], lambda _: ONE, lambda number: 2 // number)) == [2, 1]
    assert list(errors.whole("d", ONE, lambda: some_of(2))) == [0, 1]
    assert told(reports) == [(part, "one") for part in "abcd"]


def test_an_item_that_fails_is_reported_every_ten_minutes(errors, reports, clock):
    numbers = []
    for passed in (0, REPORTED_EVERY - 1, 1, 1):
        clock.now += passed
        errors.attempt("page", ONE, fails)
        numbers.append(len(reports))
    assert numbers == [1, 1, 2, 2]
    assert [item for _, item, _ in reports] == [{"target": "one"}] * 2


def test_items_and_parts_fail_separately(errors, reports):
    failures = [("page", ONE), ("page", TWO), ("log", ONE)]
    for part, item in failures:
        errors.attempt(part, item, fails)
    assert told(reports) == [(part, item["target"]) for part, item in failures]


def test_only_some_of_many_failing_items_are_reported_and_leave_room_after_that_time(errors, reports, clock):
    for number in range(1000):
        errors.attempt("page", {"target": str(number)}, fails)
    assert len(reports) == MAX_FAILING
    clock.now += REPORTED_EVERY
    for name in ("another", "0"):
        errors.attempt("page", {"target": name}, fails)
    assert told(reports)[MAX_FAILING:] == [("page", "another"), ("page", "0")]


def test_reports_are_log_lines_by_default(clock):
    with capture_logs() as logs:
        Isolation(clock.monotonic).attempt("page", ONE, fails)
    (failed,) = logs
    assert str(failed.pop("exc_info")) == "a detail"
    assert failed == {"event": "internal_error", "log_level": "error", "part": "page", "target": "one"}
