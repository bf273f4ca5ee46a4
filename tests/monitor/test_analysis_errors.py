"""An internal error in one part of the analysis ends only that part, and has one event."""

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


def test_a_part_recovers_after_a_minute_without_a_failure(errors):
    errors.attempt("sum", 1.0, fails)
    errors.attempt("sum", 2.0, int)
    errors.attempt("sum", 3.0, fails)
    errors.attempt("sum", 3.0 + RECOVERED_AFTER, int)
    assert told(errors) == [("analysis_failed", "sum", True)]
    errors.attempt("sum", 3.1 + RECOVERED_AFTER, int)
    errors.attempt("sum", 100.0, fails)
    assert told(errors) == [("analysis_works_again", "sum", False), ("analysis_failed", "sum", True)]


def test_an_exit_is_not_caught(errors):
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        errors.attempt("sum", 1.0, stop)
