"""The figure table: what every row must have, and the outputs that one row more appears in."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from spec_decode_exporter.figures.figure import GroupSum, ListFigure, MetricWindows, ScalarFigure, Unit
from spec_decode_exporter.figures.table import FIGURES, measured, shown
from spec_decode_exporter.figures.terms import CounterTerm
from spec_decode_exporter.figures.window_figures import WindowFigures
from spec_decode_exporter.reports.observe import figure_lines
from spec_decode_exporter.reports.observe.engine_sections import _SECTIONS
from spec_decode_exporter.reports.reference import comparison_tables
from spec_decode_exporter.views import window_models
from spec_decode_exporter.views.models import GroupWindowView, WindowView
from spec_decode_exporter.web.page import figure_table
from tests.unit.figures.added_figure import ROW

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(name="outputs", scope="module")
def outputs_fixture():
    """Outputs of a process whose figure table has one row more."""
    command = [sys.executable, "-m", "tests.unit.figures.added_figure"]
    finished = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return json.loads(finished.stdout)


class TestOneRowMore:
    def test_is_a_metric_with_its_help(self, outputs):
        assert f"# HELP {ROW.metric} {ROW.description}\n" in outputs["metrics"]
        assert f"# TYPE {ROW.metric} gauge\n" in outputs["metrics"]
        values = re.findall(rf'^{ROW.metric}{{.*window="(\w+)"}} (\S+)$', outputs["metrics"], re.MULTILINE)
        assert [window for window, _ in values] == ["10s", "5m"]

    def test_is_a_field_of_the_snapshot_with_the_metric_s_value(self, outputs):
        (value,) = re.findall(rf'^{ROW.metric}{{.*window="5m"}} (\S+)$', outputs["metrics"], re.MULTILINE)
        window = json.loads(outputs["snapshot"])["windows"][-1]
        counts = window["counts"]
        assert window[ROW.key] == float(value)
        rejected = counts["draft_tokens"] - counts["accepted_tokens"]
        assert window[ROW.key] == pytest.approx(rejected / counts["drafts"])

    def test_is_a_field_of_groups(self, outputs):
        engine, group = (json.loads(outputs[name])["windows"][-1] for name in ("snapshot", "group"))
        assert group[ROW.key] == engine[ROW.key]

    def test_is_a_row_of_the_page_with_its_counts(self, outputs):
        (row,) = [row for row in outputs["page"].split("<tr") if ROW.metric in row]
        assert ROW.label in row
        assert "in drafts:" in row

    def test_is_a_line_of_the_report_of_observe(self, outputs):
        value = json.loads(outputs["snapshot"])["windows"][-1][ROW.key]
        assert re.search(rf"{ROW.report.name} +{value:.2f}", outputs["observe"])

    def test_is_a_row_of_the_comparison_with_a_reference(self, outputs):
        value = f"{json.loads(outputs['snapshot'])['windows'][-1][ROW.key]:.2f}"
        assert re.search(rf"{ROW.comparison.name} +{value} +{value} +\+0\.00", outputs["compare"])

    def test_is_a_row_of_the_documentation_with_its_source(self, outputs):
        (row,) = [
            line for line in outputs["documentation"].splitlines() if f"`{ROW.metric}{{window}}`" in line
        ]
        assert ROW.description in row
        assert all(f"`{series}`" in row for series in ROW.source)


def violations(holds, figures=FIGURES):
    """Return the keys of the figures for which a check does not hold."""
    return [figure.key for figure in figures if not holds(figure)]


def test_no_key_label_or_description_is_there_twice():
    for column in ("key", "label", "description"):
        values = Counter(getattr(figure, column) for figure in FIGURES)
        assert [value for value, number in values.items() if number > 1] == []


def test_descriptions_are_one_sentence_of_at_most_120_characters_about_the_window():
    assert violations(lambda figure: len(figure.description) <= 120) == []
    assert violations(lambda figure: re.fullmatch(r"[A-Z][^\n]*[^.]\.", figure.description)) == []
    assert violations(lambda figure: not re.search(r"\. [A-Z]", figure.description)) == []
    assert violations(lambda figure: "window" in figure.description) == []


def test_sources_are_series():
    assert violations(lambda figure: figure.source) == []
    assert violations(lambda figure: all(re.fullmatch(r"vllm:\w+", name) for name in figure.source)) == []


@pytest.mark.parametrize(
    "table", [figure_table, figure_lines, comparison_tables], ids=lambda table: table.__name__
)
def test_every_unit_has_a_format_in_every_table(table):
    assert set(table._FORMATS) == set(Unit)


def test_lines_of_the_report_are_in_a_section_that_exists():
    with_line = [figure for figure in FIGURES if figure.report is not None]
    assert len(with_line) > 5
    assert violations(lambda figure: figure.report.section in _SECTIONS, with_line) == []


def test_measured_figures_have_bounds_of_their_own_or_terms_for_them():
    assert len(measured()) > 15
    has_terms = lambda figure: figure.numerator and figure.denominator  # noqa: E731
    assert violations(lambda figure: figure.bounds or has_terms(figure), measured()) == []


def test_ratios_of_groups_name_the_counters_that_an_engine_needs():
    ratios = [
        figure
        for figure in FIGURES
        if figure.in_groups is GroupSum.RATIO_OF_SUMS and isinstance(figure, ScalarFigure)
    ]
    assert ratios
    assert violations(lambda figure: figure.counters, ratios) == []


def test_bounds_have_the_windows_of_their_figure():
    bounded = [figure for figure in FIGURES if isinstance(figure, ScalarFigure) and figure.bounds]
    assert len(bounded) >= 3
    shown_windows = {MetricWindows.EACH, MetricWindows.LONGEST_UNLABELED}
    assert violations(lambda figure: figure.windows in shown_windows, bounded) == []


def test_a_ratio_is_that_of_its_terms(busy):
    """Terms and formula of a row agree: bounds, groups and page counts rest on the terms."""
    window, compared = busy.windows[-1], 0
    for figure in FIGURES:
        terms = figure.numerator, figure.denominator
        if isinstance(figure, ScalarFigure) and all(isinstance(term, CounterTerm) for term in terms):
            above, below = (term.total(window.__getitem__) for term in terms)
            if above is None or below is None or not below:
                continue
            bonus = figure.key == "acceptance_length_tokens"
            assert figure.formula(window, None) == pytest.approx(above / below + bonus), figure.key
            compared += 1
    assert compared >= 8


def test_models_have_a_field_for_every_figure():
    keys = [figure.key for figure in shown()]
    fields = [*WindowView.model_fields]
    assert fields[:5] == ["window", "seconds", "polls", "partial", "counts"]
    assert fields[5:] == [*keys, "end_to_end_speedup_ratio", "interval_acceptance_ratio"]
    grouped = [figure.key for figure in shown() if figure.in_groups is not None]
    assert sorted(GroupWindowView.model_fields) == sorted(["window", "engines", "counts", *grouped])


def test_fields_declared_for_readers_exist_with_their_type():
    tree = ast.parse(Path(window_models.__file__).read_text(encoding="utf-8"))
    (declared,) = [
        node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == "WindowView"
    ]
    fields = {node.target.id: node.annotation for node in declared.body if isinstance(node, ast.AnnAssign)}
    assert len(fields) > 15
    types = {name: field.annotation for name, field in WindowView.model_fields.items()}
    scope = vars(window_models)
    declared_types = {
        name: eval(ast.unparse(annotation), scope)  # the file's own text
        for name, annotation in fields.items()
    }
    assert [name for name, type_ in declared_types.items() if types.get(name) != type_] == []


class TestWindowFigures:
    def test_compute_each_formula_once(self, make_window):
        computed = []

        def formula(window, cost):
            computed.append(cost)

        figures = WindowFigures(make_window(10, 30, 15), "cost")
        row = replace(ROW, formula=formula)
        assert [figures.number(row) for _ in range(3)] == [None] * 3
        assert computed == ["cost"]

    def test_compute_a_list_once(self, make_window):
        computed = []

        def formula(window):
            computed.append(window)
            return [0.5, None]

        figures = WindowFigures(make_window(10, 30, 15))
        row = replace(next(each for each in FIGURES if isinstance(each, ListFigure)), formula=formula)
        assert [figures.numbers(row) for _ in range(3)] == [(0.5, None)] * 3
        assert len(computed) == 1

    def test_compute_the_spread_over_polls_once(self, make_window):
        figures = WindowFigures(make_window(10, 30, 15, increments=[{"drafts": 5, "draft_tokens": 15}]))
        assert figures.spread() is figures.spread() is not None

    def test_are_shared_by_all_readers_of_a_snapshot(self, busy):
        from spec_decode_exporter.metrics.engine_metrics import ENGINE_METRICS
        from spec_decode_exporter.views.engine_view import engine_view

        labels = {"target": "one", "model_name": "m", "engine": "0"}
        first = engine_view(labels, busy)
        values = [dict(window._numbers) for window in busy.figures]
        for metric in ENGINE_METRICS:
            list(metric.read(busy))
        assert engine_view(labels, busy) == first
        assert [window._numbers for window in busy.figures] == values
        scalars = {figure.key for figure in shown() if isinstance(figure, ScalarFigure)}
        assert [each.keys() for each in values] == [scalars] * 2
