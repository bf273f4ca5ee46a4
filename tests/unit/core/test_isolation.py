"""One failing item is omitted and reported once until it works again; memory of failures is bounded."""

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.core.isolation import FORGOTTEN_AFTER, MAX_FAILING, RECOVERED_AFTER, Isolation

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
    return [(part, item["target"], error is not None) for part, item, error in reports]


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
    assert told(reports) == [(part, "one", True) for part in "abcd"]


def test_an_item_is_reported_once_until_a_minute_after_its_last_failure(errors, reports, clock):
    numbers = []
    for passed, work in ((0, fails), (30, fails), (30, list), (31, list), (1, list), (1, fails)):
        clock.now += passed
        errors.attempt("page", ONE, work)
        numbers.append(len(reports))
    assert numbers == [1, 1, 1, 2, 2, 3]
    assert told(reports) == [("page", "one", True), ("page", "one", False), ("page", "one", True)]
    assert [item for _, item, _ in reports] == [{"target": "one"}] * 3


def test_items_and_parts_fail_separately(errors, reports, clock):
    for part, item in (("page", ONE), ("page", TWO), ("log", ONE)):
        errors.attempt(part, item, fails)
    clock.now += RECOVERED_AFTER + 1
    list(errors.each("page", [ONE, TWO], dict, lambda item: item["zone"]))
    assert told(reports)[3:] == [("page", "one", False)]


def test_only_some_of_many_failing_items_are_reported_and_items_that_are_gone_leave_room(
    errors, reports, clock
):
    for number in range(1000):
        errors.attempt("page", {"target": str(number)}, fails)
    assert len(reports) == MAX_FAILING
    clock.now += FORGOTTEN_AFTER + 1
    for name in ("another", "0"):
        errors.attempt("page", {"target": name}, fails)
    assert told(reports)[MAX_FAILING:] == [("page", "another", True), ("page", "0", True)]


def test_reports_are_log_lines_by_default(clock):
    errors = Isolation(clock.monotonic)
    with capture_logs() as logs:
        errors.attempt("page", ONE, fails)
        clock.now += RECOVERED_AFTER + 1
        errors.worked("page", ONE)
    (failed, ended) = logs
    assert str(failed.pop("exc_info")) == "a detail"
    assert failed == {"event": "internal_error", "log_level": "error", "part": "page", "target": "one"}
    assert ended == {"event": "internal_error_ended", "log_level": "info", "part": "page", "target": "one"}
