"""The rules of Grafana's dashboard-linter, and the exceptions from them, each with its reason.

Names are those of https://github.com/grafana/dashboard-linter/tree/main/docs/rules, which cannot be installed where
these tests run.
"""

import promql_parser as promql
import pytest

from grafana.style import Colour
from tests.contract.promql import nodes

from .shipped import each_board, each_panel, each_target, interpolated, panels_of, selectors

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

NOT_OURS = {"ALERTS": "alerts of a whole model have neither job nor instance", "ALERTS_FOR_STATE": "likewise"}

UNITS = {"none", "short", "percentunit", "s", "bytes", "cps"}
"""Those that we use of the linter's list."""


@each_panel
def test_panel_title_description_datasource_units_and_targets_rules(panel):
    one = panel.panel
    assert one["title"]
    assert one["description"].endswith(".")
    assert one["targets"]
    assert {str(each["datasource"]) for each in (one, *one["targets"])} == {str(DATASOURCE)}
    assert one["fieldConfig"]["defaults"]["unit"] in UNITS


@pytest.mark.parametrize("label", ["job", "instance"])
@each_board
def test_target_job_and_instance_rules(board, label):
    """Marks may also be of alerts of a whole model, which have no such label."""

    def matchers(expr):
        for selector in selectors(expr.replace(f"${label}", f"chosen_{label}")):
            yield selector.name, [(one.name, one.op, one.value) for one in selector.matchers.matchers]

    queries = [target["expr"] for panel in panels_of(board) for target in panel["targets"]]
    for name, found in (one for expr in queries for one in matchers(expr)):
        assert name in NOT_OURS or (label, promql.MatchOp.Re, f"chosen_{label}") in found
    for name, found in (one for mark in board["annotations"]["list"] for one in matchers(mark["expr"])):
        expected = f"chosen_{label}|" if name in NOT_OURS else f"chosen_{label}"
        assert (label, expected) in [(key, value) for key, _, value in found]


def joined_with_exporters(node):
    """Return whether an expression keeps only what stands where an exporter does."""
    if not isinstance(node, promql.BinaryExpr) or str(node.op) != "and":
        return False
    matching = node.modifier.matching
    return (
        str(matching.type).endswith("Include")
        and set(matching.labels) == {"cluster", "namespace", "job", "instance"}
        and "spec_decode_exporter_build_info{" in str(node.rhs)
    )


@each_target
def test_every_process_has_an_up_and_only_those_of_exporters_are_shown(target):
    for node, above in nodes(interpolated(target.expr)):
        if isinstance(node, promql.VectorSelector) and node.name not in NOT_OURS:
            ours = node.name.startswith("spec_decode_")
            assert ours or any(joined_with_exporters(one) for one in above), node.name


@each_panel
def test_who_sees_nothing_does_not_say_that_all_is_well(panel):
    assert not any("vector(" in target["expr"] for target in panel.panel["targets"])
    if panel.panel["type"] == "stat":
        mapping = panel.panel["fieldConfig"]["defaults"]["mappings"][-1]
        assert mapping["options"] == {"match": "null+nan", "result": {"color": Colour.UNKNOWN, "index": 0}}
