"""A defect in one part of the analysis ends nothing else, and is told once."""

from __future__ import annotations

import pytest

from spec_decode_exporter.monitor.containment import WORKS_AFTER, Containment


@pytest.fixture(name="containment")
def containment_fixture():
    return Containment()


def fails():
    raise ValueError("boom")


def told(containment):
    return [(event.name, event.fields["part"], event.is_bad) for event in containment.events()]


def test_what_works_is_returned_and_no_event(containment):
    assert containment.attempt("sum", 1.0, lambda: 7) == 7
    assert not containment.failed("sum", 1.0)
    assert containment.events() == []


def test_a_failure_is_told_once_with_its_error(containment):
    for moment in (1.0, 2.0, 3.0):
        assert containment.attempt("sum", moment, fails) is None
    assert containment.failed("sum", 3.0)
    (event,) = containment.events()
    assert (event.name, event.is_bad, event.fields["part"]) == ("analysis_failed", True, "sum")
    assert event.fields["error"] == "ValueError('boom')"
    assert isinstance(event.fields["exc_info"], ValueError)
    assert event.fields["exc_info"].__traceback__ is not None
    assert containment.events() == []


def test_parts_fail_apart(containment):
    containment.attempt("sum", 1.0, fails)
    containment.attempt("product", 1.0, fails)
    assert told(containment) == [("analysis_failed", "sum", True), ("analysis_failed", "product", True)]
    assert not containment.failed("sum", 2.0)


def test_it_works_again_after_a_while_without_a_failure_and_may_fail_again(containment):
    containment.attempt("sum", 1.0, fails)
    containment.attempt("sum", 2.0, int)
    containment.attempt("sum", 3.0, fails)
    containment.attempt("sum", 3.0 + WORKS_AFTER, int)
    assert told(containment) == [("analysis_failed", "sum", True)]
    containment.attempt("sum", 3.1 + WORKS_AFTER, int)
    containment.attempt("sum", 100.0, fails)
    assert told(containment) == [("analysis_works_again", "sum", False), ("analysis_failed", "sum", True)]


def test_what_ends_the_process_is_not_held_back(containment):
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        containment.attempt("sum", 1.0, stop)
