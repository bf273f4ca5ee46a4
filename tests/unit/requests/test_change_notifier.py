import pytest

from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.requests.model_findings import Kind, Mixture, ModelFindings
from spec_decode_exporter.requests.receiver import PERSISTENCE_SECONDS, RequestChangeNotifier
from spec_decode_exporter.requests.record import RequestRecord
from spec_decode_exporter.requests.store import GroupFindings, RequestFindings, WindowFindings
from spec_decode_exporter.requests.summary import Effect, GroupKey
from tests.fakes.costs import make_cost
from tests.unit.requests.test_summary import summary_of

KEY = GroupKey("llama", "chat", ">1")
REQUEST = RequestRecord("llama", 10, 40, 20, 4)
"""3 tokens a draft."""
SUMMARIES = {
    effect: summary_of([REQUEST] * number, cost=make_cost(token, 0.0))
    for effect, token, number in (
        (Effect.LOSES, 0.6875, 100),
        (Effect.GAINS, 0.1, 100),
        (Effect.UNCLEAR, 0.1, 9),
    )
}

LENGTH = Estimate(2.0, 1.9, 2.1, 0.05)
MIXTURE = Mixture("temperature", Kind(">1", LENGTH), Kind("0", LENGTH._replace(value=4.0)))


def findings_of(*, mixed=False, effect=Effect.UNCLEAR, longer=True):
    """Return findings in two windows; only the longer one counts."""
    plain = WindowFindings(30.0, partial=False)
    window = WindowFindings(
        300.0,
        partial=False,
        groups=[GroupFindings(KEY, SUMMARIES[effect])],
        models=[ModelFindings("llama", SUMMARIES[effect], MIXTURE if mixed else None, ())],
    )
    return RequestFindings(True, {"5m": window if longer else plain, "30s": plain})


@pytest.fixture
def emitted():
    """Function that returns the events of the same findings at several moments."""
    notifier = RequestChangeNotifier()

    def emitted(findings, *moments):
        return [(model, event) for now in moments for model, event in notifier.changes(findings, now)]

    return emitted


def test_a_mixed_workload_that_comes_and_goes_is_not_emitted(emitted):
    for begun in range(0, 300, 20):
        assert emitted(findings_of(mixed=begun % 40 == 0), float(begun)) == []


def test_requests_below_break_even_are_emitted_by_type_and_temperature(emitted):
    ((model, event),) = emitted(findings_of(effect=Effect.LOSES), 0.0, PERSISTENCE_SECONDS)
    assert (model, event.name) == ("llama", "requests_below_break_even")
    assert event.fields == {
        "request_type": "chat",
        "temperature": ">1",
        "window": "5m",
        "requests": 100,
        "speedup_ratio": 0.8,
    }
    ((_, event),) = emitted(findings_of(effect=Effect.GAINS), 100.0, 100.0 + PERSISTENCE_SECONDS)
    assert event.name == "requests_below_break_even_ended"


def test_without_windows_no_event_is_emitted_and_no_state_is_lost(emitted):
    emitted(findings_of(mixed=True), 0.0, PERSISTENCE_SECONDS)
    assert emitted(RequestFindings(), 500.0) == []
    assert emitted(findings_of(mixed=True), 600.0, 700.0) == []
