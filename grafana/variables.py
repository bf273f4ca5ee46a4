"""The variables at the top of the dashboards. All are queried again when the time range changes."""

from __future__ import annotations

from typing import Any

Variable = dict[str, Any]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_ALL: dict[str, Any] = {
    "multi": True,
    "includeAll": True,
    "allValue": ".+",
    "current": {"text": ["All"], "value": ["$__all"]},
}
_ON_TIME_RANGE_CHANGED, _NATURAL_ASC = 2, 7
FILTERS: Variable = {"type": "adhoc", "name": "filters", "label": "Filters", "datasource": DATASOURCE}
"""Matchers of any label, which Grafana adds to each query of the dashboard."""


def _query(name: str, label: str, selector: str, of_label: str = "", **more: object) -> Variable:
    """Return the choice of one value of a label, which is called like the variable; ``more`` overrides."""
    query = f"label_values({selector}, {of_label or name})"
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "StandardVariableQuery"},
        "definition": query,
        "refresh": _ON_TIME_RANGE_CHANGED,
        "sort": _NATURAL_ASC,
        "multi": False,
        "includeAll": False,
        **more,
    }


_JOB = 'job=~"$job"'
_EXPORTERS = f'{_JOB}, instance=~"$instance"'
_MODELS = f'{_EXPORTERS}, model_name=~"$model_name"'
_DRAFTS = "spec_decode_drafts_total"
_ARMS = ("arm", "variant", "model_name", "target", "engine", "instance", "pod")


def _window(name: str, label: str, usual: str) -> Variable:
    selector = f"spec_decode_window_seconds{{{_EXPORTERS}}}"
    return _query(name, label, selector, "window", current={"text": usual, "value": usual})


SOURCE: Variable = {
    "type": "datasource",
    "query": "prometheus",
    "multi": False,
    "name": "datasource",
    "label": "Data source",
}
JOB = _query("job", "Job", "spec_decode_exporter_build_info", **_ALL)
INSTANCE = _query("instance", "Instance", f"spec_decode_exporter_build_info{{{_JOB}}}", **_ALL)
MODEL = _query("model_name", "Model", f"{_DRAFTS}{{{_EXPORTERS}}}", **_ALL)
REQUEST_TYPE = _query("request_type", "Type", f"spec_decode_requests_total{{{_MODELS}}}", **_ALL)
LONG = _window("long", "Long window", "5m")
WINDOWS = [_window("short", "Short window", "30s"), LONG]
"""The two windows that are compared; they are the exporter's configuration."""
ONE_ENGINE = [
    _query("model_name", "Model", f"{_DRAFTS}{{{_JOB}}}", **_ALL),
    # The exporter that watches the chosen model.
    _query("instance", "Instance", f'{_DRAFTS}{{{_JOB}, model_name=~"$model_name"}}'),
    _query("target", "Target", f"{_DRAFTS}{{{_MODELS}}}"),
    _query("engine", "Engine", f'{_DRAFTS}{{{_MODELS}, target=~"$target"}}'),
]
ARMS: list[Variable] = [
    {
        "type": "custom",
        "name": "compare",
        "label": "Compare by label",
        "query": ",".join(_ARMS),
        "current": {"text": _ARMS[0], "value": _ARMS[0], "selected": True},
        "multi": False,
    },
    _query("arm", "Arms", f"{_DRAFTS}{{{_MODELS}}}", "$compare", **_ALL),
    _query("baseline", "Baseline", f"{_DRAFTS}{{{_MODELS}}}", "$compare"),
]
"""The label that tells arms apart, arms, and the one to compare with."""
