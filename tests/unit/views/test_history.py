"""Histories of engines in steps of time."""

from __future__ import annotations

from spec_decode_exporter.views.history import history_view
from spec_decode_exporter.window.engine_history import EngineHistory

LABELS = {"target": "one", "model_name": "m", "engine": "0"}
OFFSET = 1_790_000_000.25


def test_counters_that_the_engine_lacks_are_null(make_sample):
    history = EngineHistory(300.0)
    for second in range(5):
        history.observe(make_sample(generation_tokens=second), float(second), OFFSET + second, 1.0)
    view = history_view(LABELS, history.window(300.0), 0.0, 1.0)
    assert (view.drafts, view.decode_steps, view.running_requests) == (None, None, None)
    assert view.generation_tokens == (1, 1, 1, 1)
    assert view.draft_acceptance_ratio == view.effective_tokens_per_step == (None,) * 4
