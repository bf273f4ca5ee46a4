"""Events of one engine, each once."""

from __future__ import annotations

import pytest

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.drops.sums import Drop, DropKind, Transition
from spec_decode_exporter.monitor.engine_events import EngineChangeNotifier, drop_event
from tests.fixtures.windows import window


def test_another_number_of_tokens_has_an_event_and_the_same_with_another_method_has_none():
    notifier, evaluation = EngineChangeNotifier(), Evaluation((window(),), Knowledge(speculates=False))

    def told(now, tokens, window_resets):
        return [event.fields for event in notifier.changes(evaluation, now, tokens, window_resets, tuple)]

    assert told(0.0, 5, 0) == []
    assert told(5.0, 5, 1) == []
    assert told(10.0, 3, 2) == [{"configured_tokens": 3, "before": 5}]


@pytest.mark.parametrize(
    ("transition", "name"),
    [
        (Transition.BEGAN, "acceptance_dropped"),
        (Transition.ENDED, "acceptance_recovered"),
        (Transition.LEARNED_AGAIN, "acceptance_baseline_reset"),
    ],
)
def test_a_drop_has_an_event_with_its_numbers(transition, name):
    drop = Drop(DropKind.SUDDEN, transition, 2.1004, 1.4, 8.04, 9.0)
    event = drop_event(drop, 1_790_000_009.0)
    assert event.name == name
    assert event.fields == {
        "kind": "sudden",
        "baseline_acceptance_length": 2.1,
        "acceptance_length": 1.4,
        "seconds": 8.0,
        "since": "2026-09-21T14:13:20Z",
    }


@pytest.mark.parametrize(
    ("transition", "name"),
    [
        (Transition.BEGAN, "drafting_dropped"),
        (Transition.ENDED, "drafting_recovered"),
        (Transition.LEARNED_AGAIN, "drafting_baseline_reset"),
    ],
)
def test_a_drop_of_drafting_has_an_event_with_tokens_per_step(transition, name):
    drop = Drop(DropKind.DRAFTING, transition, 2.1004, 1.02, 8.04, 9.0)
    event = drop_event(drop, 1_790_000_009.0)
    assert event.name == name
    assert event.fields == {
        "baseline_tokens_per_step": 2.1,
        "tokens_per_step": 1.02,
        "seconds": 8.0,
        "since": "2026-09-21T14:13:20Z",
    }
