"""JSON model of an engine."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pydantic import ValidationError

from spec_decode_exporter.analysis.evaluation_result import UNREACHABLE, Evaluation
from spec_decode_exporter.analysis.request_baseline import RequestBaseline
from spec_decode_exporter.analysis.speculation_state import State
from spec_decode_exporter.metrics.engine_metrics import ENGINE_METRICS
from spec_decode_exporter.metrics.metric import MetricKind
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.views.engine_view import engine_id, engine_view
from spec_decode_exporter.views.models import EngineView, SnapshotView, TotalsView, WindowView
from tests.fixtures.snapshot_view import snapshot_view

LABELS = {"target": "one", "model_name": "m", "engine": "0", "team": "a"}


@pytest.fixture(scope="module")
def view(busy):
    return engine_view(LABELS, busy)


BESIDE_THE_TABLE = {"counts", "interval_acceptance_ratio", "end_to_end_speedup_ratio"}
"""Fields of a window that no row of the figure table has."""


def values(findings):
    """Return the values of an engine's metrics by name without prefix, window and further labels."""
    return {
        (metric.name.removeprefix("spec_decode_"), *own): number
        for metric in ENGINE_METRICS
        if metric.kind is not MetricKind.HISTOGRAM
        for own, number in metric.read(findings)
        if number is not None
    }


def test_an_engine_is_shown_with_its_evaluation_and_the_findings_behind_it(busy, view):
    assert (view.target, view.model_name, view.engine, view.labels) == ("one", "m", "0", LABELS)
    assert (view.method, view.method_source, view.configured_tokens) == ("eagle3", "configured", 8)
    evaluation = busy.evaluation
    assert (view.state, view.verdict) == (State.ACTIVE, evaluation.verdict)
    assert (view.recommendation, view.recommended_tokens) == (
        evaluation.action,
        evaluation.recommended.tokens,
    )
    assert view.cost.source == evaluation.cost.source
    assert view.cost.draft_cost_ratio_lower < view.cost.draft_cost_ratio < view.cost.draft_cost_ratio_upper
    assert view.crossover_running_requests == evaluation.crossover
    assert [depth.tokens for depth in view.depths] == list(range(1, 11))
    assert [depth.tokens for depth in view.depths if depth.recommended] == [evaluation.recommended.tokens]
    assert [finding.name for finding in view.findings] == [found.name for found in evaluation.findings] != []
    assert all(finding.text.endswith(".") and finding.severity for finding in view.findings)


def test_the_baseline_is_shown_with_its_age_and_what_it_knows_of_requests(busy, view):
    shown = view.baseline
    assert shown.name == "60 min without speculation on 21 September"
    assert (shown.seconds, shown.end, shown.age_seconds) == (
        3600,
        busy.baseline.end,
        busy.baseline.age_seconds,
    )
    assert shown.time_to_first_token_seconds is None, "it saw no first tokens"
    request = RequestBaseline(0.05, 0.85, 0.01, 3600.0, shown.end, "60 min")
    known = replace(busy, baseline=replace(busy.baseline, request=request))
    shown = engine_view(LABELS, known).baseline
    assert (shown.time_to_first_token_seconds, shown.prefix_cache_hit_ratio, shown.queue_seconds) == (
        0.05,
        0.85,
        0.01,
    )
    assert engine_view(LABELS, replace(busy, baseline=None)).baseline is None


def test_a_number_is_the_one_that_the_metric_of_its_name_has(busy, view):
    metrics, compared = values(busy), 0
    for window in view.windows:
        for name in WindowView.model_fields.keys() - BESIDE_THE_TABLE:
            shown = getattr(window, name)
            if hasattr(shown, "value"):
                for side in ("lower", "upper"):
                    unlabeled = metrics.get((f"{name}_{side}",))  # of the longest window alone
                    bound = metrics.get((f"{name}_{side}", window.window), unlabeled)
                    assert getattr(shown, side) == bound or window is not view.windows[-1], name
                shown = shown.value
            listed = enumerate(shown) if isinstance(shown, tuple) else [(None, shown)]
            for place, number in listed:
                key = (name, window.window) if place is None else (name, window.window, str(place))
                if key in metrics:
                    assert number == metrics[key], key
                    compared += 1
        for name, count in window.counts.model_dump().items():
            if isinstance(count, int) and (f"window_{name}", window.window) in metrics:
                assert count == metrics[f"window_{name}", window.window]
                compared += 1
    assert compared > 90


def test_the_speed_up_of_a_request_is_that_of_the_metric(busy, view):
    metrics, last = values(busy), view.windows[-1]
    request = last.end_to_end_speedup_ratio
    assert request.basis == "same_first_token"
    for suffix, number in (("", request.value), ("_lower", request.lower), ("_upper", request.upper)):
        name = f"end_to_end_speedup_ratio{suffix}"
        assert metrics[name, last.window, "same_first_token"] == number
        assert (name, "30s", "same_first_token") not in metrics
    assert request.value < last.estimated_speedup_ratio.value
    assert view.windows[0].end_to_end_speedup_ratio is not None


def test_without_an_evaluation_no_window_has_a_speed_up_of_requests(busy):
    failed = engine_view(LABELS, replace(busy, evaluation=Evaluation(State.ACTIVE)))
    assert [window.end_to_end_speedup_ratio for window in failed.windows] == [None, None]


def test_the_totals_are_the_counters_of_the_page(busy, view):
    metrics = values(busy)
    shared = {name for name in TotalsView.model_fields if (f"{name}_total",) in metrics}
    assert shared >= {"drafts", "draft_tokens", "accepted_tokens", "generation_tokens"}
    for name in shared:
        assert getattr(view.totals, name) == metrics[f"{name}_total",]
    assert view.totals.drafts == 309 * 400
    assert view.totals.position_accepted_tokens[0] == 309 * 200
    assert sum(view.resets.values()) == 0


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


def test_unknown_values_are_null(findings_of, make_sample):
    found = findings_of([make_sample(n, 4 * n, n, positions=(n, 0, 0, 0)) for n in range(5)])
    view = engine_view(LABELS, found)
    assert (view.cost, view.recommended_tokens, view.crossover_running_requests) == (None,) * 3
    assert view.windows[1].estimated_speedup_ratio.model_dump() == {
        "value": None,
        "lower": None,
        "upper": None,
    }
    assert view.windows[1].counts.decode_steps is None
    assert view.depths == ()
    assert json.loads(view.model_dump_json())["cost"] is None


def test_an_engine_that_is_gone_has_no_windows_but_its_totals(findings_of, busy_sample):
    view = engine_view(LABELS, findings_of([busy_sample(n) for n in range(20)], later=3000.0))
    assert (view.state, view.windows, view.latency_seconds) == (State.UNREACHABLE, (), {})
    assert view.totals.drafts == 19 * 400


@pytest.mark.parametrize("evaluation", [UNREACHABLE, Evaluation(State.ACTIVE)])
def test_windows_without_an_evaluation_have_no_bounds(busy, evaluation):
    view = engine_view(LABELS, replace(busy, evaluation=evaluation))
    assert [window.acceptance_length_tokens.lower for window in view.windows] == [None, None]
    assert view.windows[1].acceptance_length_tokens.value == pytest.approx(4.3)


def test_an_engine_with_the_same_labels_keeps_its_id(busy, view):
    assert view.id == engine_view({**LABELS, "team": "b"}, busy).id == engine_id("one", "m", "0")
    assert len({engine_id("a", "b", "0"), engine_id("a", "b", "1"), engine_id("ab", "", "0"), view.id}) == 4
    assert engine_id('a","b', "", "0") != engine_id("a", 'b",', "0")
    assert engine_id("one", "m", "0") == "f06f443b2f90", "an id that changes breaks links that people keep"


def test_a_view_is_equal_after_json_and_back(view):
    assert EngineView.model_validate_json(view.model_dump_json()) == view
    with pytest.raises(ValidationError):
        EngineView.model_validate({**view.model_dump(), "colour": "red"})
    with pytest.raises(ValidationError, match="frozen"):
        view.state = State.IDLE


def test_a_snapshot_holds_every_engine_and_its_time(busy):
    whole = snapshot_view(
        Snapshot([(LABELS, busy), ({**LABELS, "engine": "1"}, busy)]), 1_790_000_000.5, "1.2.3"
    )
    assert (whole.time, whole.version) == (1_790_000_000.5, "1.2.3")
    assert [engine.engine for engine in whole.engines] == ["0", "1"]
    assert SnapshotView.model_validate_json(whole.model_dump_json()) == whole


def test_every_field_has_a_description_or_is_a_model_with_one():
    schema = SnapshotView.model_json_schema()
    plain = {"p50", "p95", "p99", "tokens"}
    for name, model in {"SnapshotView": schema, **schema["$defs"]}.items():
        assert model.get("description"), name
        for field, about in model.get("properties", {}).items():
            described = about.get("description") or "$ref" in about or "items" in about
            assert described or field in plain, f"{name}.{field}"
