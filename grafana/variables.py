"""The variables at the top of the dashboards. All are queried again when the time range changes."""

from __future__ import annotations

from typing import Any

Variable = dict[str, Any]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_ALL = {
    "multi": True,
    "includeAll": True,
    "allValue": ".+",
    "current": {"text": ["All"], "value": ["$__all"]},
}
_EXPORTERS = 'job=~"$job", instance=~"$instance"'
_MODELS = f'{_EXPORTERS}, model_name=~"$model_name"'
_ON_TIME_RANGE_CHANGED = 2
_NATURAL_ASC = 7
FILTERS: Variable = {
    "type": "adhoc",
    "name": "filters",
    "label": "Filters",
    "datasource": DATASOURCE,
}
"""Matchers of any label, which Grafana adds to each query of the dashboard."""


def datasource() -> Variable:
    """Return the choice of the Prometheus."""
    of_prometheus = {"type": "datasource", "query": "prometheus", "multi": False}
    return {**of_prometheus, "name": "datasource", "label": "Data source"}


def _query(name: str, label: str, selector: str, of_label: str, **more: object) -> Variable:
    """Return the choice of one value of a label; ``more`` overrides."""
    query = f"label_values({selector}, {of_label})"
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


def job() -> Variable:
    """Return the choice of Prometheus' scrape jobs."""
    return _query("job", "Job", "spec_decode_exporter_build_info", "job", **_ALL)


def instance() -> Variable:
    """Return the choice of exporters."""
    selector = 'spec_decode_exporter_build_info{job=~"$job"}'
    return _query("instance", "Instance", selector, "instance", **_ALL)


def one_instance() -> Variable:
    """Return the choice of the exporter that watches the chosen model."""
    selector = 'spec_decode_drafts_total{job=~"$job", model_name=~"$model_name"}'
    return _query("instance", "Instance", selector, "instance")


def model_name(exporters: str = _EXPORTERS) -> Variable:
    """Return the choice of models."""
    return _query("model_name", "Model", f"spec_decode_drafts_total{{{exporters}}}", "model_name", **_ALL)


def one_target() -> Variable:
    """Return the choice of one target."""
    return _query("target", "Target", f"spec_decode_drafts_total{{{_MODELS}}}", "target")


def one_engine() -> Variable:
    """Return the choice of one engine of the target."""
    selector = f'spec_decode_drafts_total{{{_MODELS}, target=~"$target"}}'
    return _query("engine", "Engine", selector, "engine")


def _window(name: str, label: str, usual: str) -> Variable:
    selector = f"spec_decode_window_seconds{{{_EXPORTERS}}}"
    return _query(name, label, selector, "window", current={"text": usual, "value": usual})


def windows() -> list[Variable]:
    """Return the choice of the two windows that are compared; they are the exporter's configuration."""
    return [_window("short", "Short window", "30s"), long_window()]


def long_window() -> Variable:
    """Return the choice of the window of trends."""
    return _window("long", "Long window", "5m")


def request_type() -> Variable:
    """Return the choice of what senders call the kinds of their requests."""
    return _query("request_type", "Type", f"spec_decode_requests_total{{{_MODELS}}}", "request_type", **_ALL)


def arms() -> list[Variable]:
    """Return the choices of the label that tells arms apart, of arms, and of the one to compare with."""
    names = ("arm", "variant", "model_name", "target", "engine", "instance", "pod")
    chosen = {"text": names[0], "value": names[0], "selected": True}
    label = {"type": "custom", "name": "compare", "label": "Compare by label", "query": ",".join(names)}
    selector = f"spec_decode_drafts_total{{{_MODELS}}}"
    return [
        {**label, "current": chosen, "multi": False},
        _query("arm", "Arms", selector, "$compare", **_ALL),
        _query("baseline", "Baseline", selector, "$compare"),
    ]
