"""Exported quantiles have a label and a name for the same share."""

from __future__ import annotations

from spec_decode_exporter.figures.quantiles import QUANTILES


def test_each_has_the_label_of_a_summary_and_the_name_of_a_percentile():
    assert {each.name: each.label for each in QUANTILES} == {
        "p10": "0.1",
        "p50": "0.5",
        "p90": "0.9",
        "p95": "0.95",
        "p99": "0.99",
    }
    assert all(float(each.label) == each.share for each in QUANTILES)
