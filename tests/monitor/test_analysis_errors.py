"""A defect in one part of the analysis ends nothing else, and is told once."""

from __future__ import annotations

import pytest

from spec_decode_exporter.monitor.analysis_errors import RECOVERED_AFTER, AnalysisErrors


@pytest.fixture(name="errors")
def errors_fixture():
    return AnalysisErrors()


def fails():
    raise ValueError("boom")


def told(errors):
    return [(event.name, event.fields["part"], event.is_bad) for event in errors.events()]


def test_what_works_is_returned_and_no_event(errors):
    assert errors.attempt("sum", 1.0, lambda: 7) == 7
    assert not errors.failed("sum", 1.0)
    assert errors.events() == []


def test_a_failure_is_told_once_with_its_error(errors):
    for moment in (1.0, 2.0, 3.0):
        assert errors.attempt("sum", moment, fails) is None
    assert errors.failed("sum", 3.0)
    (event,) = errors.events()
    assert (event.name, event.is_bad, event.fields["part"]) == ("analysis_failed", True, "sum")
    assert event.fields["error"] == "ValueError('boom')"
    assert isinstance(event.fields["exc_info"], ValueError)
    assert event.fields["exc_info"].__traceback__ is not None
    assert errors.events() == []


def test_parts_fail_apart(errors):
    errors.attempt("sum", 1.0, fails)
    errors.attempt("product", 1.0, fails)
    assert told(errors) == [("analysis_failed", "sum", True), ("analysis_failed", "product", True)]
    assert not errors.failed("sum", 2.0)


def test_it_works_again_after_a_while_without_a_failure_and_may_fail_again(errors):
    errors.attempt("sum", 1.0, fails)
    errors.attempt("sum", 2.0, int)
    errors.attempt("sum", 3.0, fails)
    errors.attempt("sum", 3.0 + RECOVERED_AFTER, int)
    assert told(errors) == [("analysis_failed", "sum", True)]
    errors.attempt("sum", 3.1 + RECOVERED_AFTER, int)
    errors.attempt("sum", 100.0, fails)
    assert told(errors) == [("analysis_works_again", "sum", False), ("analysis_failed", "sum", True)]


def test_what_ends_the_process_is_not_held_back(errors):
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        errors.attempt("sum", 1.0, stop)
