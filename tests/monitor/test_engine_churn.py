from __future__ import annotations

from spec_decode_exporter.monitor.engine_churn import CHURN_SECONDS, EngineChurn


def test_as_long_as_there_is_room_nothing_is_told():
    churn = EngineChurn()
    assert churn.forget(-1, 0.0, 2) == []
    assert churn.forget(0, 0.0, 2) == []
    assert not churn.is_churning(0.0)
    assert churn.forgotten == 0


def test_it_is_told_once_and_counted_each_time():
    churn = EngineChurn()
    (event,) = churn.forget(3, 0.0, 2)
    assert (event.name, event.fields["kept"], event.is_bad) == ("engines_forgotten", 2, True)
    assert churn.forget(1, 1.0, 2) == []
    assert churn.forgotten == 4


def test_it_is_told_again_only_after_there_was_room_for_a_while():
    churn = EngineChurn()
    churn.forget(1, 0.0, 2)
    assert churn.forget(1, CHURN_SECONDS, 2) == []
    assert churn.is_churning(2 * CHURN_SECONDS)
    assert not churn.is_churning(2 * CHURN_SECONDS + 1)
    assert len(churn.forget(1, 2 * CHURN_SECONDS + 1, 2)) == 1
