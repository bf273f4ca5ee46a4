"""PromQL of the shipped files: nodes of an expression, labels of its result, and its values by promtool."""

import json
import shutil
import subprocess

import promql_parser as promql
import pytest

from spec_decode_exporter.metrics.subject import ENGINE, TARGET
from spec_decode_exporter.metrics.table import METRICS

CONFIGURED = {"workload", "arm"}  # labels that users give their targets
_PARTS = {"histogram": {"_bucket": {"le"}, "_sum": set(), "_count": set()}}
EXPORTED = {
    f"{metric.name}{suffix}": {*metric.subject.labels, *metric.label_names, *more}
    | (CONFIGURED if metric.subject in {ENGINE, TARGET} else set())
    for metric in METRICS
    for suffix, more in _PARTS.get(metric.kind, {"": set()}).items()
}
"""The labels of every sample of the exporter, by its name."""


def needs(program):
    """Skip a test, loudly, where a program is not installed; .ci/run installs them all."""
    return pytest.mark.skipif(
        shutil.which(program) is None, reason=f"{program} is not installed: NOTHING IS PROVEN ABOUT THE RULES"
    )


def children(node):
    match node:
        case promql.BinaryExpr():
            return [node.lhs, node.rhs]
        case promql.AggregateExpr():
            return [node.expr, *([node.param] if node.param is not None else [])]
        case promql.Call():
            return list(node.args)
        case promql.MatrixSelector():
            return [node.vector_selector]
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return [node.expr]
    return []


def of_kind(expression, kind):
    """Return the nodes of a kind in an expression."""
    nodes = [promql.parse(expression)]
    for node in nodes:  # it grows meanwhile
        nodes += children(node)
    return [node for node in nodes if isinstance(node, kind)]


def selectors(expression):
    """Return the selectors of series in an expression."""
    return of_kind(expression, promql.VectorSelector)


class UnknownNameError(Exception):
    """An expression names a series or a label that its operand lacks."""


def _check(named, labels, where):
    if unknown := set(named) - labels:
        raise UnknownNameError(f"{where} has no {', '.join(sorted(unknown))}")


def labels_of(node, series):
    """Return the labels that the result of an expression can have; ``series`` has the labels of each series."""
    if isinstance(node, str):
        node = promql.parse(node)
    match node:
        case promql.VectorSelector():
            if node.name not in series:
                raise UnknownNameError(f"{node.name} does not exist")
            _check((one.name for one in node.matchers.matchers), series[node.name], node.name)
            return series[node.name]
        case promql.AggregateExpr():
            inner = labels_of(node.expr, series)
            named = set(node.modifier.labels) if node.modifier else set()
            _check(named, inner, node.expr)
            is_by = node.modifier is None or node.modifier.type == promql.AggModifierType.By
            kept = named if is_by else inner - named
            return kept | {node.param.val} if str(node.op) == "count_values" else kept
        case promql.BinaryExpr():
            return _combined(node, labels_of(node.lhs, series), labels_of(node.rhs, series))
        case promql.Call() if node.func.name == "label_replace":
            inner, name, _, source, _ = node.args
            found = labels_of(inner, series)
            _check({source.val} - {""}, found, inner)
            return found | {name.val}
    return set().union(*(labels_of(child, series) for child in children(node)))


def _combined(node, left, right):
    matching = node.modifier.matching if node.modifier else None
    _check(matching.labels if matching else (), left | right, node)
    if str(node.op) == "or":
        return left | right
    card = str(node.modifier.card) if node.modifier else ""
    many, one = (right, left) if "OneToMany" in card else (left or right, right)
    grouped = set(node.modifier.group_labels or ()) if node.modifier else set()
    _check(grouped, one, node)
    return many | grouped


def wrong_name(expression, series):
    """Return what an expression names that does not exist; None if there is nothing."""
    try:
        labels_of(expression, series)
    except UnknownNameError as error:
        return str(error)
    return None


def promtool(*arguments):
    """Run promtool; return its exit status and its output."""
    run = subprocess.run(
        [shutil.which("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout + run.stderr


def wrong_values(folder, *cases):
    """Return what promtool reports about cases of an expression, series and the samples expected, ``{labels: value}``."""
    tests = [
        {
            "name": f"case {number}",
            "input_series": [{"series": name, "values": str(value)} for name, value in series.items()],
            "promql_expr_test": [
                {
                    "expr": expression,
                    "exp_samples": [{"labels": labels, "value": value} for labels, value in expected.items()],
                }
            ],
        }
        for number, (expression, series, expected) in enumerate(cases)
    ]
    path = folder / "test.json"
    path.write_text(json.dumps({"tests": tests}), encoding="utf-8")
    status, output = promtool("test", "rules", path)
    return output if status else ""
