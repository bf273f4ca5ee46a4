"""The SLO has the form that Sloth reads, and its records are valid rules."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from tests.rules.shipped import needs

from .shipped import SLO, SLOTH_WINDOWS, slo_queries

FORM = {
    "version": str,
    "service": str,
    "slos": [
        {
            "name": str,
            "objective": (int, float),
            "description": str,
            "sli": {"events": {"error_query": str, "total_query": str}},
            "alerting": {
                "name": str,
                "annotations": {"summary": str},
                "page_alert": {"labels": {"severity": str}},
                "ticket_alert": {"labels": {"severity": str}},
            },
        }
    ],
}
"""Used fields of Sloth's ``prometheus/v1`` (slok/sloth v0.16.0, pkg/prometheus/api/v1/v1.go); Sloth rejects unknown ones."""


def mistakes(value, form, path="slo"):
    """Yield what has another form."""
    if isinstance(form, dict):
        yield from (f"{path}.{key}: unknown" for key in set(value) - set(form))
        yield from (f"{path}.{key}: missing" for key in set(form) - set(value))
        for key in set(value) & set(form):
            yield from mistakes(value[key], form[key], f"{path}.{key}")
    elif isinstance(form, list):
        for one in value:
            yield from mistakes(one, form[0], f"{path}[]")
    elif not isinstance(value, form):
        yield f"{path}: {value!r}"


def test_it_has_the_form_of_sloth():
    assert list(mistakes(SLO, FORM)) == []
    assert SLO["version"] == "prometheus/v1"
    (one,) = SLO["slos"]
    assert 0 < one["objective"] <= 100


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({**SLO, "owner": "x"}, "slo.owner: unknown"),
        ({**SLO, "service": 1}, "slo.service: 1"),
        ({}, "slo.slos: missing"),
    ],
)
def test_another_form_is_found(changed, found):
    assert found in list(mistakes(changed, FORM))


def test_every_query_has_the_window_that_sloth_puts_in():
    events = SLO["slos"][0]["sli"]["events"]
    assert all("[{{.window}}:1m]" in query for query in events.values())


@needs("promtool")
def test_prometheus_reads_the_records_that_sloth_makes(tmp_path):
    rules = [
        {
            "record": f"slo:sli_error:ratio_rate{window}",
            "expr": slo_queries(window)["ratio"],
            "labels": {"sloth_window": window},
        }
        for window in SLOTH_WINDOWS
    ]
    path = tmp_path / "rules.yml"
    path.write_text(json.dumps({"groups": [{"name": "sloth", "rules": rules}]}), encoding="utf-8")
    run = subprocess.run(
        [shutil.which("promtool"), "check", "rules", path], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
