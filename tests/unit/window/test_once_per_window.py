from __future__ import annotations

from dataclasses import replace

import pytest

from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.once_per_window import once_per_window


class Formula:
    """The drafts of a window, and the windows whose drafts were computed."""

    def __init__(self):
        self.windows = []
        self.drafts = once_per_window(self._drafts)

    def _drafts(self, window):
        """Return the drafts."""
        self.windows.append(window)
        return window[Counter.DRAFTS]


@pytest.fixture(name="formula")
def formula_fixture():
    return Formula()


def test_a_formula_is_computed_once(make_window, formula):
    window = make_window(10)
    assert [formula.drafts(window) for _ in range(3)] == [10] * 3
    assert len(formula.windows) == 1


def test_an_unknown_result_is_kept_too(make_window, formula):
    window = make_window()
    assert [formula.drafts(window) for _ in range(3)] == [None] * 3
    assert len(formula.windows) == 1


def test_each_window_and_each_formula_has_its_own_result(make_window, formula):
    other = Formula()
    windows = [make_window(10), make_window(20)]
    assert [each.drafts(window) for each in (formula, other) for window in windows] == [10, 20] * 2


def test_a_forgotten_result_is_computed_again(make_window, formula):
    window = make_window(10)
    formula.drafts(window)
    window.forget()
    assert formula.drafts(window) == 10
    assert len(formula.windows) == 2


def test_it_keeps_its_name_and_its_docstring(formula):
    assert formula.drafts.__doc__ == "Return the drafts."


class TestOtherLength:
    def test_the_same_sums_share_the_results(self, make_window, formula):
        window = make_window(10, length=300.0, seconds=299.5)
        formula.drafts(window)
        trimmed = window.of_length(299.5)
        assert (trimmed.length, trimmed.counters) == (299.5, window.counters)
        assert formula.drafts(trimmed) == 10
        assert formula.windows == [window]

    def test_the_same_length_is_the_same_window(self, make_window):
        window = make_window(10)
        assert window.of_length(window.length) is window

    def test_a_window_that_becomes_partial_shares_nothing(self, make_window, formula):
        window = make_window(10, length=30.0, seconds=30.0)
        formula.drafts(window)
        longer = window.of_length(300.0)
        assert (window.partial, longer.partial) == (False, True)
        formula.drafts(longer)
        assert len(formula.windows) == 2

    def test_a_copy_with_other_counters_has_its_own_results(self, make_window, formula):
        window = make_window(10)
        formula.drafts(window)
        assert formula.drafts(replace(window, counters=(20, *window.counters[1:]))) == 20
