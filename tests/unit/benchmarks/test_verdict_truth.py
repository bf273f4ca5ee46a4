"""The score of verdicts counts what is wrong, and the exit status follows the goals."""

from __future__ import annotations

import pytest

from benchmarks import verdict_truth
from benchmarks.truth.cells import cells
from benchmarks.truth.sources import Recording, Reported, Source
from benchmarks.verdict_truth import Outcome, Score, score


@pytest.fixture(name="cell", scope="module")
def fixture_cell():
    return next(cells(1, 1))


@pytest.fixture(name="outcome_of")
def fixture_outcome_of():
    def outcome_of(truth, verdict, lower=1.0, upper=1.2):
        return Outcome(truth, Reported(verdict, lower, upper, "typical"))

    return outcome_of


def source_of(adapter, decided=None):
    return Source("a source", adapter, ("typical",), decided)


@pytest.mark.parametrize(
    ("truth", "verdict", "pays", "hurts"),
    [
        (0.90, "marginal", True, False),
        (0.90, "optimal", True, False),
        (0.90, "poor", False, False),
        (0.90, "harmful", False, False),
        (0.98, "healthy", False, False),
        (1.10, "harmful", False, True),
        (1.02, "harmful", False, False),
        (1.10, "unclear", False, False),
    ],
)
def test_a_verdict_is_false_if_the_truth_is_clearly_on_the_other_side(
    outcome_of, truth, verdict, pays, hurts
):
    outcome = outcome_of(truth, verdict)
    assert (outcome.is_false_pays, outcome.is_false_hurts) == (pays, hurts)


def test_goals_are_missed_beyond_their_limits(outcome_of):
    right, wrong = outcome_of(1.1, "marginal"), outcome_of(0.9, "marginal")
    assert Score(source_of(None), (*[right] * 49, wrong)).missed() == []
    assert Score(source_of(None), (*[right] * 9, wrong)).missed() == ["false pays"]
    assert Score(source_of(None), (right, outcome_of(1.3, "marginal"))).missed() == ["truth inside"]
    undecided = Score(source_of(None, 0.6), (right, outcome_of(1.1, "unclear")))
    assert undecided.missed() == ["decided"]


def test_cells_in_which_another_source_was_used_do_not_count(cell):
    other = Reported("healthy", 1.4, 1.6, "configured")
    scored = score(source_of(lambda _: other), [Recording(cell)])
    assert (scored.outcomes, scored.elsewhere) == ((), 1)


@pytest.mark.parametrize(("truth", "status"), [(1.1, 0), (0.9, 1)])
def test_the_exit_status_is_that_of_the_goals(monkeypatch, capsys, truth, status):
    reported = Reported("marginal", truth - 0.1, truth + 0.1, "typical")
    monkeypatch.setattr(verdict_truth, "SOURCES", [source_of(lambda _: reported)])
    monkeypatch.setattr(verdict_truth.Recording, "truth", truth, raising=False)
    monkeypatch.setattr("benchmarks.truth.cells.Cell.truth", truth)
    monkeypatch.setattr("sys.argv", ["verdict_truth", "--cells=1"])
    if status:
        with pytest.raises(SystemExit) as ended:
            verdict_truth.main()
        assert ended.value.code == status
    else:
        verdict_truth.main()
    assert "| a source | 1 |" in capsys.readouterr().out
