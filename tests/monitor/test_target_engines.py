from __future__ import annotations

from spec_decode_exporter.monitor.target_engines import CHURN_SECONDS, EngineChurn


def test_without_a_surplus_there_is_no_event():
    churn = EngineChurn()
    assert churn.evict(-1, 0.0, 2) == []
    assert churn.evict(0, 0.0, 2) == []
    assert not churn.is_churning(0.0)


def test_a_surplus_has_one_event():
    churn = EngineChurn()
    (event,) = churn.evict(3, 0.0, 2)
    assert (event.name, event.fields["kept"], event.is_bad) == ("engines_evicted", 2, True)
    assert churn.evict(1, 1.0, 2) == []


def test_another_event_needs_a_time_without_surplus():
    churn = EngineChurn()
    churn.evict(1, 0.0, 2)
    assert churn.evict(1, CHURN_SECONDS, 2) == []
    assert churn.is_churning(2 * CHURN_SECONDS)
    assert not churn.is_churning(2 * CHURN_SECONDS + 1)
    assert len(churn.evict(1, 2 * CHURN_SECONDS + 1, 2)) == 1
