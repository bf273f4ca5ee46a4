from __future__ import annotations

from spec_decode_exporter.monitor.engine_churn import CROWDED_FOR, EngineChurn


def test_as_long_as_there_is_room_nothing_is_told():
    crowd = EngineChurn()
    assert crowd.forget(-1, 0.0, 2) == []
    assert crowd.forget(0, 0.0, 2) == []
    assert not crowd.is_crowded(0.0)
    assert crowd.forgotten == 0


def test_it_is_told_once_and_counted_each_time():
    crowd = EngineChurn()
    (event,) = crowd.forget(3, 0.0, 2)
    assert (event.name, event.fields["kept"], event.is_bad) == ("engines_forgotten", 2, True)
    assert crowd.forget(1, 1.0, 2) == []
    assert crowd.forgotten == 4


def test_it_is_told_again_only_after_there_was_room_for_a_while():
    crowd = EngineChurn()
    crowd.forget(1, 0.0, 2)
    assert crowd.forget(1, CROWDED_FOR, 2) == []
    assert crowd.is_crowded(2 * CROWDED_FOR)
    assert not crowd.is_crowded(2 * CROWDED_FOR + 1)
    assert len(crowd.forget(1, 2 * CROWDED_FOR + 1, 2)) == 1
