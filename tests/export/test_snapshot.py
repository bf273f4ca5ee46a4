"""What a snapshot says as JSON."""

from __future__ import annotations

import json

import pytest

from exporter.export.collector import Snapshot
from exporter.export.snapshot import document

LABELS = {"target": "one", "model_name": "m", "engine": "0"}


def only_engine(findings):
    """The document of one engine, through JSON and back."""
    whole = document(Snapshot([(LABELS, findings)]))
    (engine,) = json.loads(json.dumps(whole, allow_nan=False))["engines"]
    return engine


def test_an_engine_is_shown_with_its_judgement_and_the_findings_behind_it(busy):
    engine = only_engine(busy)
    assert engine["labels"] == LABELS
    assert (engine["method"], engine["method_source"], engine["configured_tokens"]) == (
        "eagle3",
        "configured",
        8,
    )
    judgement = busy.judgement
    assert (engine["state"], engine["verdict"]) == ("active", str(judgement.verdict))
    assert (engine["recommendation"], engine["recommended_tokens"]) == (
        str(judgement.action),
        judgement.recommended.tokens,
    )
    assert engine["cost"]["source"] == "configured"
    assert engine["crossover_running_requests"] == judgement.crossover
    assert [depth["tokens"] for depth in engine["depths"]] == list(range(1, 11))
    names = [finding["name"] for finding in engine["findings"]]
    assert names == [str(finding.name) for finding in judgement.findings] != []
    assert all(finding["text"].endswith(".") and finding["severity"] for finding in engine["findings"])


def test_a_window_is_shown_with_its_bounds(busy):
    short, long = only_engine(busy)["windows"]
    assert (short["window"], long["window"]) == ("30s", "5m")
    for window in (short, long):
        for name in ("draft_acceptance_ratio", "acceptance_length_tokens", "estimated_speedup_ratio"):
            shown = window[name]
            assert shown["lower"] <= shown["value"] <= shown["upper"]
    assert long["acceptance_length_tokens"]["value"] == pytest.approx(1 + 1320 / 400)
    assert len(long["position_acceptance_ratio"]) == 8


def test_what_is_unknown_is_null(findings_of, make_sample):
    engine = only_engine(findings_of([make_sample(n, 4 * n, n, positions=(n, 0, 0, 0)) for n in range(5)]))
    assert (engine["cost"], engine["recommended_tokens"], engine["crossover_running_requests"]) == (None,) * 3
    assert engine["windows"][1]["estimated_speedup_ratio"] == {"value": None, "lower": None, "upper": None}
    assert engine["depths"] == []


def test_an_engine_that_is_gone_has_no_windows(findings_of, busy_sample):
    engine = only_engine(findings_of([busy_sample(n) for n in range(20)], later=3000.0))
    assert (engine["state"], engine["windows"]) == ("unreachable", [])
