"""The variables at the top of the dashboards. All are queried again when the time range changes."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import CustomVariable, DatasourceVariable, QueryVariable
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard
from grafana_foundation_sdk.models.common import DataSourceRef

Variable = Builder[dashboard.VariableModel]

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
ALL = dashboard.VariableOption(text=["All"], value=["$__all"])
_EXPORTERS = 'job=~"$job", instance=~"$instance"'
_MODELS = f'{_EXPORTERS}, model_name=~"$model_name"'


def datasource() -> Variable:
    """Return the choice of the Prometheus."""
    return DatasourceVariable("datasource").label("Data source").type("prometheus")


def _query(name: str, label: str, selector: str, of_label: str) -> QueryVariable:
    query = f"label_values({selector}, {of_label})"
    return (
        QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query({"query": query, "refId": "StandardVariableQuery"})
        .definition(query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.NATURAL_ASC)
    )


def _many(variable: QueryVariable) -> Variable:
    return variable.multi(True).include_all(True).all_value(".+").current(ALL)


def job() -> Variable:
    """Return the choice of Prometheus' scrape jobs."""
    return _many(_query("job", "Job", "spec_decode_exporter_build_info", "job"))


def instance() -> Variable:
    """Return the choice of exporters."""
    return _many(_query("instance", "Instance", 'spec_decode_exporter_build_info{job=~"$job"}', "instance"))


def one_instance() -> Variable:
    """Return the choice of the exporter that watches the chosen model."""
    return _query(
        "instance", "Instance", 'spec_decode_drafts_total{job=~"$job", model_name=~"$model_name"}', "instance"
    )


def model_name(exporters: str = _EXPORTERS) -> Variable:
    """Return the choice of models."""
    return _many(_query("model_name", "Model", f"spec_decode_drafts_total{{{exporters}}}", "model_name"))


def one_target() -> Variable:
    """Return the choice of one target."""
    return _query("target", "Target", f"spec_decode_drafts_total{{{_MODELS}}}", "target")


def one_engine() -> Variable:
    """Return the choice of one engine of the target."""
    selector = f'spec_decode_drafts_total{{{_MODELS}, target=~"$target"}}'
    return _query("engine", "Engine", selector, "engine")


def _window(name: str, label: str, usual: str) -> Variable:
    variable = _query(name, label, f"spec_decode_window_seconds{{{_EXPORTERS}}}", "window")
    return variable.current(dashboard.VariableOption(text=usual, value=usual))


def windows() -> list[Variable]:
    """Return the choice of the two windows that are compared; they are the exporter's configuration."""
    return [_window("short", "Short window", "30s"), long_window()]


def long_window() -> Variable:
    """Return the choice of the window of trends."""
    return _window("long", "Long window", "5m")


def request_type() -> Variable:
    """Return the choice of what senders call the kinds of their requests."""
    selector = f"spec_decode_requests_total{{{_MODELS}}}"
    return _many(_query("request_type", "Type", selector, "request_type"))


def compare() -> Variable:
    """Return the choice of the label whose values are the arms of an experiment."""
    names = ("arm", "variant", "model_name", "target", "engine", "instance", "pod")
    chosen = dashboard.VariableOption(text=names[0], value=names[0], selected=True)
    return CustomVariable("compare").label("Compare by label").values(",".join(names)).current(chosen)


def arms() -> list[Variable]:
    """Return the choices of the arms, and of the one that the others are compared with."""
    selector = f"spec_decode_drafts_total{{{_MODELS}}}"
    return [
        _many(_query("arm", "Arms", selector, "$compare")),
        _query("baseline", "Baseline", selector, "$compare"),
    ]
