"""The figure table: what every row must have, and the outputs that it appears in."""

import asyncio
from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.figure_table import FIGURE, Unit, columns_of, term
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.monitor.snapshot import Snapshot
from spec_decode_exporter.reports import observation_report
from spec_decode_exporter.reports.comparison import as_text, compared
from spec_decode_exporter.reports.observation_view import ObservationView, sum_of_windows
from spec_decode_exporter.reports.saved_snapshot import SavedSnapshot
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.scrape.engines import Counter
from spec_decode_exporter.views.engine_view import EngineView
from spec_decode_exporter.web import page
from spec_decode_exporter.web.fleet import PageQuery
from tests.every import every
from tests.fakes.windows import polled, summed, window
from tests.unit.web.pages import shown

OF_REFERENCES = {"requests_per_second", "output_tokens_per_request"}
"""Figures that are shown where servers are compared with a saved measurement, and nowhere else."""


def test_every_figure_with_a_value_appears_in_every_output(busy):
    """``tests/unit/metrics`` has its metric."""
    labels = {"target": "one", "model_name": "m", "engine": "0"}
    view = EngineView(labels=labels, snapshot=busy)
    observation = ObservationView(time=0.0, version="1", engines=(view,), seconds=9.0, targets=(), events=())
    saved = SavedSnapshot.model_validate(observation)
    shown_page = asyncio.run(shown(Snapshot([(labels, busy)]), PageQuery("", (view.id,))))
    observed = observation_report.report(observation, TextStyle())
    comparison = as_text(compared(saved, saved), TextStyle())
    document = view.model_dump_json()
    its = busy.evaluation.longest
    figures = [each for each in FIGURE.values() if not each.index and each.of(its) is not None]
    assert len(figures) > 25
    for figure in figures:
        assert figure.key in OF_REFERENCES or f'"{figure.key}":' in document
        assert figure.key in OF_REFERENCES or figure.label in shown_page
        assert not figure.report or figure.report.name in observed
        assert not figure.compared or figure.compared.name in comparison


@pytest.fixture(name="its", scope="module")
def its_fixture(busy, busy_sample):
    """Evaluation of a busy window with every counter."""
    samples = []
    for n in range(310):
        counters = list(busy_sample(n).counters)
        counters[Counter.PROMPT_TOKENS] = 1000 * n
        samples.append(replace(busy_sample(n), counters=tuple(counters)))
    return WindowEvaluation(polled(samples), busy.evaluation.known)


@pytest.mark.parametrize("column", ["key", "label", "help"])
def test_no_key_label_or_help_is_there_twice(column):
    values = [getattr(figure, column) for figure in FIGURE.values()]
    assert sorted(values) == sorted(set(values))


@every([page._FORMATS, observation_report.FORMATS], lambda formats: str(len(formats)))
def test_every_unit_has_a_format_in_every_table(table):
    assert set(table) == set(Unit)


@every(FIGURE.values(), lambda figure: figure.key)
def test_every_row_has_a_value_of_a_busy_window_within_its_bounds(figure, its):
    """Rows name sums and attributes of a window: no type check sees a wrong name."""
    values = figure.each(its) if figure.index else [figure.of(its)]
    assert len(values) >= 1
    assert all(value is not None and 0 <= value <= figure.highest for value in values)
    if figure.bounds:
        bounds = figure.bounds(its)
        assert bounds.lower <= figure.of(its) <= bounds.upper
        assert bounds.value == pytest.approx(figure.of(its))


@every(FIGURE.values(), lambda figure: figure.key)
def test_a_figure_without_its_counters_is_absent(figure):
    its = WindowEvaluation(window(), Knowledge())
    assert not any(figure.each(its)) if figure.index else figure.of(its) is None


@every(dict.fromkeys(name for figure in FIGURE.values() for name in figure.over or ()))
def test_the_sums_of_increments_are_those_of_the_window(name, its):
    """Bounds and the counts of the page rest on the terms."""
    columns = columns_of(its.window, its.increments, name)
    assert len(columns) == len(its.increments) > 30
    assert sum(columns) == pytest.approx(term(its.window, name))


def test_tokens_that_a_page_does_not_count_are_those_of_its_steps_though_it_counts_first_tokens():
    its = summed([{"drafts": 4, "accepted_tokens": 10, "decode_steps": 5, "first_tokens": 1}] * 40)
    assert term(its, "decoded_tokens") == sum(columns_of(its, its.increments, "decoded_tokens")) == 40 * 15
    assert sum(WindowEvaluation(its, Knowledge()).works[0]) == 40 * 15


@every([one for one in FIGURE.values() if one.over], lambda figure: figure.key)
def test_a_ratio_is_that_of_its_terms(figure, its):
    bonus = figure.key == "acceptance_length_tokens"
    above, below = (term(its.window, name) for name in figure.over)
    assert figure.of(its) == pytest.approx(above / below + bonus)
    both = sum_of_windows([its.window, its.window])
    above, below = (sum(columns_of(both, both.increments, name)) for name in figure.over)
    assert figure.of(WindowEvaluation(both, its.known)) == pytest.approx(above / below + bonus)
