from __future__ import annotations

import pytest

from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.change_notifier import STANDS_AFTER, RequestChangeNotifier
from spec_decode_exporter.requests.request_findings import (
    Effect,
    GroupFindings,
    GroupKey,
    ModelFindings,
    Percentiles,
    RequestFindings,
    RequestTotals,
    Summary,
    WindowFindings,
)

KEY = GroupKey("llama", "chat", "above 1")
ESTIMATE = Estimate(0.8, 0.7, 0.9, 0.05)
SUMMARY = Summary(
    RequestTotals(100, 400, 1600, 640), Percentiles(0.1, 0.5, 0.8), 0.4567, None, None, ESTIMATE, 9, 90, 0, 0
)


def said(*, mixed=False, effect=Effect.UNCLEAR, longer=True):
    """What requests say in two windows; only the longer one counts."""
    plain = WindowFindings(30.0, partial=False)
    window = WindowFindings(
        300.0,
        partial=False,
        groups=[GroupFindings(KEY, SUMMARY, effect)],
        models=[ModelFindings("llama", SUMMARY, None, mixed, ())],
    )
    return RequestFindings(True, {"5m": window if longer else plain, "30s": plain})


@pytest.fixture
def told():
    """A function that gives what is told of the same findings at some moments."""
    notifier = RequestChangeNotifier()

    def told(findings, *moments):
        return [(model, event) for now in moments for model, event in notifier.tell(findings, now)]

    return told


def test_a_mix_is_told_once_it_has_stood_for_a_minute_and_once_only(told):
    assert told(said(), 0.0) == []
    assert told(said(mixed=True), 5.0, 5.0 + STANDS_AFTER - 1) == []
    ((model, event),) = told(said(mixed=True), 5.0 + STANDS_AFTER, 200.0, 300.0)
    assert (model, event.name, event.is_bad) == ("llama", "mixed_workload_began", True)
    assert event.fields == {
        "window": "5m",
        "requests": 100,
        "mean_acceptance_ratio": 0.457,
        "p10_acceptance_ratio": 0.1,
    }


def test_a_mix_that_comes_and_goes_is_not_told(told):
    for begun in range(0, 300, 20):
        assert told(said(mixed=begun % 40 == 0), float(begun)) == []


def test_its_end_is_told_too_even_where_nothing_is_seen_of_the_model(told):
    told(said(mixed=True), 0.0, STANDS_AFTER)
    assert told(said(longer=False), 100.0) == []
    ((model, event),) = told(said(longer=False), 100.0 + STANDS_AFTER)
    assert (model, event.name, event.is_bad) == ("llama", "mixed_workload_ended", False)
    assert event.fields["requests"] == 0
    assert event.fields["p10_acceptance_ratio"] is None


def test_requests_that_lose_are_told_by_type_and_temperature(told):
    ((model, event),) = told(said(effect=Effect.LOSES), 0.0, STANDS_AFTER)
    assert (model, event.name, event.is_bad) == ("llama", "requests_below_break_even", True)
    assert event.fields == {
        "request_type": "chat",
        "temperature": "above 1",
        "window": "5m",
        "requests": 100,
        "speedup_ratio": 0.8,
    }
    ((_, event),) = told(said(effect=Effect.GAINS), 100.0, 100.0 + STANDS_AFTER)
    assert (event.name, event.is_bad) == ("requests_below_break_even_ended", False)


def test_without_windows_nothing_is_told_or_forgotten(told):
    told(said(mixed=True), 0.0, STANDS_AFTER)
    assert told(RequestFindings(), 500.0) == []
    assert told(said(mixed=True), 600.0, 700.0) == []


def test_what_is_over_is_not_kept():
    notifier = RequestChangeNotifier()
    for number in range(1000):
        window = WindowFindings(300.0, False, models=[ModelFindings(str(number), SUMMARY, None, True, ())])
        list(notifier.tell(RequestFindings(True, {"5m": window}), float(number)))
    assert len(notifier._held) < 2 * STANDS_AFTER
