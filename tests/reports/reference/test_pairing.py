"""Outcome of a comparison of several models and engines."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from spec_decode_exporter.reports.reference.comparison import Outcome
from spec_decode_exporter.reports.reference.pairing import Compared


def found(*models, gone=()):
    """Return a comparison of models, each with its outcome and those of its engines."""
    pairs = [
        SimpleNamespace(
            comparison=SimpleNamespace(outcome=outcome),
            engines=[SimpleNamespace(comparison=SimpleNamespace(outcome=each)) for each in engines],
        )
        for outcome, engines in models
    ]
    return Compared(None, None, 0.05, tuple(pairs), tuple(gone), ()).outcome


@pytest.mark.parametrize("model", Outcome)
def test_an_engine_that_fell_counts_whatever_its_model_did(model):
    assert found((model, [Outcome.SAME, Outcome.FELL])) is Outcome.FELL


@pytest.mark.parametrize("engine", [outcome for outcome in Outcome if outcome is not Outcome.FELL])
def test_other_outcomes_of_an_engine_do_not_count(engine):
    assert found((Outcome.SAME, [engine])) is Outcome.SAME


def test_the_worst_of_the_models_counts():
    order = [
        Outcome.FELL, Outcome.NOT_COMPARABLE, Outcome.UNCERTAIN, Outcome.LOWER, Outcome.SAME, Outcome.BETTER
    ]  # fmt: skip
    for place, worst in enumerate(order):
        assert all(found((other, []), (worst, [])) is worst for other in order[place:])


def test_a_missing_model_makes_the_outcome_uncertain_at_best():
    assert found((Outcome.BETTER, []), gone=["model"]) is Outcome.UNCERTAIN
    assert found((Outcome.FELL, []), gone=["model"]) is Outcome.FELL
