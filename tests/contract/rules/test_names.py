"""Every metric and label in a rule, a template or a runbook exists."""

from __future__ import annotations

import pytest

from tests.every import every

from .shipped import (
    CONFIGURED,
    PLACE,
    RUNBOOKS,
    exported,
    grouped,
    of_prometheus,
    queries_in,
    queries_of,
    recorded_from_vllm,
    rules,
    selectors,
)

RULES = rules()
RECORDED = {rule["record"] for rule in RULES if "record" in rule}
METRICS = {**of_prometheus(), **recorded_from_vllm(), **exported()}
LABELS = {label for labels in METRICS.values() for label in labels} | PLACE | CONFIGURED

EXPRESSIONS = [
    *((rule.get("record") or rule["alert"], rule["expr"]) for rule in RULES),
    *((rule["alert"], query) for rule in RULES if "alert" in rule for query in queries_in(rule["annotations"]["description"])),
    *((path.stem, query) for path in sorted(RUNBOOKS.glob("*.md")) for query in queries_of(path.read_text(encoding="utf-8"))),
]  # fmt: skip


def wrong_names(expression):
    """Return what an expression names that does not exist."""
    for selector in selectors(expression):
        if selector.name not in METRICS and selector.name not in RECORDED:
            yield selector.name
        known = (METRICS[selector.name] | PLACE) if selector.name in METRICS else LABELS
        yield from (
            f"{selector.name}{{{matcher.name}}}"
            for matcher in selector.matchers.matchers
            if matcher.name not in known
        )
    yield from grouped(expression) - LABELS


@every(EXPRESSIONS, ": ".join)
def test_every_metric_and_label_exists(named):
    _, expression = named
    assert list(wrong_names(expression)) == []


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("rate(spec_decode_draft_total[5m])", "spec_decode_draft_total"),
        ('spec_decode_state{state="idle",window="5m"}', "spec_decode_state{window}"),
        ("sum by (modell) (spec_decode_state)", "modell"),
        ("spec_decode_state / ignoring (statee) spec_decode_state", "statee"),
        ("spec_decode_state * on (target) group_left (methode) spec_decode_engine_info", "methode"),
        ("vllm:spec_decode_num_drafts", "vllm:spec_decode_num_drafts"),
        ("model:spec_decode_draft:rate5m", "model:spec_decode_draft:rate5m"),
    ],
)
def test_a_name_that_does_not_exist_is_found(expression, wrong):
    assert list(wrong_names(expression)) == [wrong]


def test_records_are_named_level_metric_operations():
    assert all(len(name.split(":")) == 3 and all(name.split(":")) for name in RECORDED)


def test_no_record_is_made_twice():
    assert len(RECORDED) == sum("record" in rule for rule in RULES)


def test_no_ratio_is_of_a_gauge_over_a_window():
    """Means of ratios weight an idle engine like a busy one: rules use the rates of counters.

    That a position's ratio is there says that the position is drafted now; its value goes nowhere. A speed-up is no
    ratio of counters: it is weighted by the time that was decoded.
    """
    windowed = {name for name, labels in exported().items() if "window" in labels} - {
        "spec_decode_time_per_output_token_quantile_seconds",
        "spec_decode_position_acceptance_ratio",
        "spec_decode_estimated_speedup_ratio",
        "spec_decode_window_decode_seconds",
    }
    used = {selector.name for rule in RULES if "record" in rule for selector in selectors(rule["expr"])}
    assert used & windowed == set()
