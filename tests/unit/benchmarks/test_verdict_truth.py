"""The score of verdicts counts what is wrong, and the exit status follows the goals."""

import pytest

pytest.importorskip("numpy", reason="the cells need group bench, as in CI")

from benchmarks.truth.sources import Reported, Source
from benchmarks.verdict_truth import Outcome, Score


def outcome_of(truth, verdict):
    return Outcome(truth, Reported(verdict, 1.0, 1.2, "typical"))


@pytest.mark.parametrize(
    ("truth", "verdict", "pays", "hurts"),
    [
        (0.90, "marginal", True, False),
        (0.90, "harmful", False, False),
        (0.98, "healthy", False, False),
        (1.10, "harmful", False, True),
        (1.02, "harmful", False, False),
        (1.10, "unclear", False, False),
    ],
)
def test_a_verdict_is_false_if_the_truth_is_clearly_on_the_other_side(truth, verdict, pays, hurts):
    outcome = outcome_of(truth, verdict)
    assert (outcome.is_false_pays, outcome.is_false_hurts) == (pays, hurts)


@pytest.mark.parametrize(
    ("outcomes", "decided", "missed"),
    [
        ([outcome_of(1.1, "marginal")] * 49 + [outcome_of(0.9, "marginal")], None, []),
        ([outcome_of(1.1, "marginal")] * 9 + [outcome_of(0.9, "marginal")], None, ["false pays"]),
        ([outcome_of(1.1, "marginal"), outcome_of(1.3, "marginal")], None, ["truth inside"]),
        ([outcome_of(1.1, "marginal"), outcome_of(1.1, "unclear")], 0.6, ["decided"]),
    ],
    ids=["none", "false pays", "truth inside", "decided"],
)
def test_goals_are_missed_beyond_their_limits(outcomes, decided, missed):
    source = Source("a source", None, ("typical",), decided)
    assert Score(source, tuple(outcomes)).missed() == missed
