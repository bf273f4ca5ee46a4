"""The verdict: by the bounds of the speed-up, and when there is none."""

import pytest

from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.verdict import SpeedupRange, Verdict, speedup_verdict
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.figures.estimate import Estimate
from tests.fakes.costs import make_cost
from tests.fakes.windows import window

OPTIMAL, HEALTHY, MARGINAL = Verdict.OPTIMAL, Verdict.HEALTHY, Verdict.MARGINAL
POOR, HARMFUL, UNCLEAR, INSUFFICIENT = Verdict.POOR, Verdict.HARMFUL, Verdict.UNCLEAR, Verdict.INSUFFICIENT
"""From bad to good."""
POLICY = Policy().speedup


def between(lower, value, upper, at_costs=None, *, is_bounded=True):
    """A speed-up with its bounds; by default its cost is exact."""
    low, high = at_costs or (value, value)
    return SpeedupRange(Estimate(value, lower, upper, 0.0), low, high, is_bounded)


def evaluated(speedup, *, cost=None, length=None, policy=Policy(), drafts=1000, **more):  # noqa: B008
    counts = {"positions": (drafts, drafts, 0, 0) if drafts else ()}
    its = WindowEvaluation(
        window(drafts, drafts and 4 * drafts, drafts and 2 * drafts, **counts, **more),
        Knowledge(policy=policy),
    )
    its.speedup_range, its.cost, its.acceptance_length_bounds = speedup, cost, length
    return its


@pytest.mark.parametrize(
    ("speedup", "expected"),
    [
        # It pays if its lower bound says so, as well as the best guess says; below a tenth it is poor.
        (between(1.0, 1.2999, 3.5), MARGINAL),
        (between(1.0, 1.3, 3.5), HEALTHY),
        (between(1.0, 1.9999, 3.5), HEALTHY),
        (between(1.0, 2.0, 3.5), OPTIMAL),
        (between(1.05, 1.0999, 1.15), POOR),
        (between(1.05, 1.1, 1.15), MARGINAL),
        # It hurts if even the upper bound is below 1, unless the sampling error is only assumed.
        (between(0.7, 0.8, 0.9999), HARMFUL),
        (between(0.7, 0.8, 1.0), POOR),
        (between(0.1, 0.2, 0.3, is_bounded=False), POOR),
        # Bounds that hold 1: the cost decides, or cost and sampling together.
        (between(0.8, 1.4, 1.9, (0.85, 1.8)), UNCLEAR),
        (between(0.9, 2.0, 3.0, (1.02, 2.9)), UNCLEAR),
        (between(0.95, 1.02, 1.1, (0.96, 1.09)), UNCLEAR),
        (between(0.0, 0.0, 1.2, (0.0, 0.0)), POOR),
        # Or more data would decide; until then a small gain is poor.
        (between(0.9, 1.12, 1.3, (1.05, 1.2)), INSUFFICIENT),
        (between(0.59, 1.59, 3.76, (1.54, 1.64)), INSUFFICIENT),
        (between(0.9, 1.0999, 1.3, (1.05, 1.2)), POOR),
        (between(0.7, 0.9, 1.1, (0.85, 0.95)), POOR),
        (between(0.95, 1.02, 1.0999, (0.96, 1.09)), POOR),
    ],
)
def test_the_bounds_of_the_speed_up_decide(speedup, expected):
    assert speedup_verdict(speedup, POLICY) is expected


@pytest.mark.parametrize(
    ("lower", "value", "upper", "expected"),
    [
        (0.9, 1.0, 1.04, HARMFUL),
        (1.1, 1.19, 1.3, POOR),
        (1.05, 1.49, 5.0, MARGINAL),
        (1.05, 1.5, 5.0, HEALTHY),
        (1.05, 3.0, 5.0, OPTIMAL),
    ],
)
def test_thresholds_are_those_of_the_policy(lower, value, upper, expected):
    strict = Policy.model_validate({"speedup": {"harmful": 1.05, "poor": 1.2, "marginal": 1.5, "healthy": 3}})
    assert speedup_verdict(between(lower, value, upper), strict.speedup) is expected


@pytest.mark.parametrize(
    ("cost", "value", "expected"),
    [
        (make_cost(), 3.0, OPTIMAL),
        (make_cost(source=CostSource.TYPICAL), 3.0, HEALTHY),
        (None, 3.0, HEALTHY),
        (None, 1.2, MARGINAL),
    ],
)
def test_at_the_cost_of_others_or_an_unknown_one_it_is_healthy_at_most(cost, value, expected):
    assert evaluated(between(1.1, value, 3.5), cost=cost).verdict is expected


class TestInsufficient:
    FEW = {"first_tokens": 0, "gauges": (1.0,), "increments": [{"drafts": 33}] * 30}  # noqa: RUF012

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            ({"drafts": 99}, True),
            ({"drafts": 100}, False),
            ({"drafts": None}, True),
            ({"drafts": 0, "policy": Policy(min_drafts=1)}, True),
            ({"drafts": 1, "policy": Policy(min_drafts=1)}, False),
            ({"seconds": 14.9}, True),
            ({"seconds": 15.0}, False),
            # Bounds may be a quarter of the length away; a clipped bound does not narrow them.
            ({"length": Estimate(2.0, 1.5, 2.1, 0.2)}, False),
            ({"length": Estimate(2.0, 1.499, 2.1, 0.2)}, True),
            ({"length": Estimate(2.0, 1.9, 2.5, 0.2)}, False),
            ({"length": Estimate(2.0, 1.9, 2.501, 0.2)}, True),
            ({"length": Estimate(1.1, 1.0, 1.4, 0.15)}, True),
            # Almost no requests, unless they are unknown: those may be many.
            (FEW, True),
            ({**FEW, "first_tokens": 7, "gauges": (4.0,)}, True),
            ({**FEW, "first_tokens": 8, "gauges": (4.0,)}, False),
            ({**FEW, "first_tokens": 2, "gauges": (0.5,)}, False),
            ({**FEW, "length": Estimate(2.0, 1.9, 2.1, 0.05)}, False),
            ({**FEW, "first_tokens": None}, False),
            ({**FEW, "gauges": (None,)}, False),
        ],
    )
    def test_too_few_data_have_no_verdict(self, more, expected):
        found = evaluated(between(2.4, 2.5, 2.6), cost=make_cost(), **more)
        assert (found.verdict is INSUFFICIENT) is found.is_insufficient is expected
