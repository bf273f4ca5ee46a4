"""JSON model of an engine."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.views.engine_view import engine_view
from spec_decode_exporter.views.models import EngineView, SnapshotView

LABELS = {"target": "one", "model_name": "m", "engine": "0", "team": "a"}


@pytest.fixture(scope="module")
def view(busy):
    return engine_view(LABELS, busy)


def test_a_window_is_shown_with_its_bounds(view):
    short, long = view.windows
    assert (short.window, long.window, long.partial) == ("30s", "5m", False)
    for window in (short, long):
        for name in ("draft_acceptance_ratio", "acceptance_length_tokens", "estimated_speedup_ratio"):
            shown = getattr(window, name)
            assert shown.lower <= shown.value <= shown.upper
    assert long.acceptance_length_tokens.value == pytest.approx(1 + 1320 / 400)
    assert len(long.position_acceptance_ratio) == 8
    assert sum(long.accepted_length_ratio) == pytest.approx(1)
    assert view.latency_seconds["queue"].p50 == pytest.approx(0.1)


def test_a_view_is_equal_after_json_and_back(view):
    assert EngineView.model_validate_json(view.model_dump_json()) == view
    with pytest.raises(ValidationError):
        EngineView.model_validate({**view.model_dump(), "colour": "red"})
    with pytest.raises(ValidationError, match="frozen"):
        view.state = State.IDLE


def test_every_field_has_a_description_or_is_a_model_with_one():
    schema = SnapshotView.model_json_schema()
    plain = {"p50", "p95", "p99", "tokens"}
    for name, model in {"SnapshotView": schema, **schema["$defs"]}.items():
        assert model.get("description"), name
        for field, about in model.get("properties", {}).items():
            described = about.get("description") or "$ref" in about or "items" in about
            assert described or field in plain, f"{name}.{field}"
