"""The figure table: what every row must have, and the outputs that one row more appears in."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter as Tally
from dataclasses import replace

import pytest

from docs.generate.metrics import series_of
from spec_decode_exporter.analysis.figure_table import (
    COMPARED,
    FIGURE,
    FIGURES,
    MEASURED,
    GroupSum,
    Unit,
    Windows,
    columns_of,
    term,
)
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.reports import comparison, observation_report
from spec_decode_exporter.scrape.engines import Counter
from spec_decode_exporter.web import page
from spec_decode_exporter.window.history import Window
from tests.fakes.windows import polled
from tests.paths import CHECKOUT
from tests.unit.analysis.added_figure import ROW


@pytest.fixture(name="outputs", scope="module")
def outputs_fixture():
    """Outputs of a process whose figure table has one row more."""
    command = [sys.executable, "-m", "tests.unit.analysis.added_figure"]
    finished = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    return json.loads(finished.stdout)


class TestOneRowMore:
    def test_is_a_metric_with_its_help(self, outputs):
        assert f"# HELP {ROW.metric} {ROW.help}\n" in outputs["metrics"]
        assert f"# TYPE {ROW.metric} gauge\n" in outputs["metrics"]
        values = re.findall(rf'^{ROW.metric}{{.*window="(\w+)"}} (\S+)$', outputs["metrics"], re.MULTILINE)
        assert [window for window, _ in values] == ["10s", "5m"]

    def test_is_a_field_of_the_snapshot_with_the_metric_s_value(self, outputs):
        (value,) = re.findall(rf'^{ROW.metric}{{.*window="5m"}} (\S+)$', outputs["metrics"], re.MULTILINE)
        window = json.loads(outputs["snapshot"])["windows"][-1]
        counts = window["counts"]
        assert window[ROW.key] == float(value)
        decoded = counts["generation_tokens"] - counts["first_tokens"]
        assert window[ROW.key] == pytest.approx(decoded / counts["drafts"])

    def test_is_a_field_of_groups(self, outputs):
        engine, group = (json.loads(outputs[name])["windows"][-1] for name in ("snapshot", "group"))
        assert group[ROW.key] == engine[ROW.key]

    def test_is_a_row_of_the_page_with_its_counts(self, outputs):
        (row,) = [row for row in outputs["page"].split("<tr") if ROW.metric in row]
        assert ROW.label in row
        assert "in drafts:" in row

    def test_is_a_line_of_the_report_of_observe(self, outputs):
        value = json.loads(outputs["snapshot"])["windows"][-1][ROW.key]
        assert re.search(rf"{ROW.report.name} +\| +{value:.2f}", outputs["observe"])

    def test_is_a_row_of_the_comparison_with_a_reference(self, outputs):
        value = f"{json.loads(outputs['snapshot'])['windows'][-1][ROW.key]:.2f}"
        assert re.search(rf"{ROW.compared.name} +\| +{value} +\| +{value} +\| +\+0\.00", outputs["compare"])

    def test_is_a_row_of_the_documentation_with_its_sources(self, outputs):
        (row,) = [
            line for line in outputs["documentation"].splitlines() if f"`{ROW.metric}{{window}}`" in line
        ]
        assert ROW.help in row
        assert all(f"`{series_of(name)}`" in row for name in ROW.sources)


@pytest.fixture(name="its", scope="module")
def its_fixture(busy, busy_sample):
    """Evaluation of a busy window with every counter."""
    samples = []
    for n in range(310):
        counters = list(busy_sample(n).counters)
        counters[Counter.PROMPT_TOKENS] = 1000 * n
        samples.append(replace(busy_sample(n), counters=tuple(counters)))
    return WindowEvaluation(polled(samples), busy.evaluation.known)


def violations(holds, figures=FIGURES):
    """Return the keys of the figures for which a check does not hold."""
    return [figure.key for figure in figures if not holds(figure)]


@pytest.mark.parametrize("column", ["key", "label", "help"])
def test_no_key_label_or_help_is_there_twice(column):
    values = Tally(getattr(figure, column) for figure in FIGURE.values())
    assert [value for value, number in values.items() if number > 1] == []


CHECKS = {
    "help is about the window": lambda its: "window" in its.help,
    "sources are series of vLLM": lambda its: (
        its.sources and all(series_of(name).startswith("vllm:") for name in its.sources)
    ),
    "a list has an index": lambda its: (its.each is not None) is bool(its.index),
    "a figure has a formula or terms": lambda its: its.over or its.value or its.each,
    "the report has its section": lambda its: (
        its.report is None or its.report.section in {"Acceptance", "Time", "Waste"}
    ),
    "a compared one has bounds or terms for them": lambda its: its.compared is None or its.bounds or its.over,
    "the ratio of a group names its counters": lambda its: (
        its.groups is not GroupSum.RATIO_OF_SUMS or its.counters
    ),
    "bounds have windows that are shown": lambda its: (
        not its.bounds or its.windows in {Windows.EACH, Windows.BARE}
    ),
}


@pytest.mark.parametrize("check", CHECKS)
def test_every_row(check):
    assert violations(CHECKS[check], FIGURE.values()) == []


@pytest.mark.parametrize("table", [page, observation_report, comparison], ids=lambda table: table.__name__)
def test_every_unit_has_a_format_in_every_table(table):
    assert set(table._FORMATS) == set(Unit)


@pytest.mark.parametrize("figure", FIGURE.values(), ids=FIGURE)
def test_every_row_has_a_value_of_a_busy_window_within_its_bounds(its, figure):
    """Rows name sums and attributes of a window: no type check sees a wrong name."""
    values = figure.each(its) if figure.index else [figure.of(its)]
    assert len(values) >= 1
    assert all(value is not None and 0 <= value <= figure.highest for value in values)
    if figure.bounds:
        bounds = figure.bounds(its)
        assert bounds.lower <= figure.of(its) <= bounds.upper
        assert bounds.value == pytest.approx(figure.of(its))


def test_a_figure_without_its_counters_is_absent(make_window):
    its = WindowEvaluation(make_window(), Knowledge())
    assert (
        violations(lambda one: one.of(its) is None, [one for one in FIGURE.values() if not one.index]) == []
    )
    assert violations(lambda one: not any(one.each(its)), [one for one in FIGURES if one.index]) == []


TERMS = dict.fromkeys(name for figure in FIGURE.values() for name in figure.over or ())


@pytest.mark.parametrize("name", TERMS)
def test_the_sums_of_increments_are_those_of_the_window(its, name):
    """Bounds, groups and the counts of the page rest on the terms."""
    columns = columns_of(its.window, its.increments, name)
    assert len(columns) == len(its.increments) > 30
    assert sum(columns) == pytest.approx(term(its.window, name))


@pytest.mark.parametrize("figure", [one for one in FIGURE.values() if one.over], ids=lambda one: one.key)
def test_a_ratio_is_that_of_its_terms(its, figure):
    bonus = figure.key == "acceptance_length_tokens"
    above, below = (term(its.window, name) for name in figure.over)
    assert figure.of(its) == pytest.approx(above / below + bonus)
    both = Window.sum_of([its.window, its.window])
    above, below = (sum(columns_of(both, both.increments, name)) for name in figure.over)
    assert figure.of(WindowEvaluation(both, its.known)) == pytest.approx(above / below + bonus)


def test_figures_of_comparisons_alone_are_compared():
    assert {figure.key for figure in MEASURED} < {figure.key for figure in COMPARED}
    assert len(COMPARED) > 15
