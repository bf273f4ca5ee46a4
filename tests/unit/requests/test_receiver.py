"""Cost at which a request is evaluated."""

import pytest

from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.requests.receiver import costs_of
from tests.fakes.costs import cost_between, steps_of, tokens_of


def cost(ratio, source=CostSource.MEASURED, step=0.0, margin=0.0):
    tokens, steps = ((each - margin, each, each + margin) for each in (ratio, step))
    return cost_between(tokens, steps, source, 8.0)


def test_a_cost_is_that_of_the_target_or_the_middle_one_of_all_with_the_model():
    one, two, three = cost(0.3, step=0.2, margin=0.1), cost(0.1, margin=0.05), cost(0.2, margin=0.01)
    costs = costs_of(
        (name, [("llama", each)]) for name, each in (("one", one), ("two", two), ("three", three))
    )
    assert (costs("llama", "one"), costs("llama", "two"), costs("qwen", "one")) == (one, two, None)
    for unknown in ("", "elsewhere"):
        middle = costs("llama", unknown)
        assert (tokens_of(middle), steps_of(middle)) == (
            pytest.approx((0.05, 0.2, 0.4)),
            pytest.approx((-0.05, 0, 0.3)),
        )


def test_a_measured_cost_of_one_engine_counts_more_than_a_typical_one_of_another():
    measured = cost(0.1)
    costs = costs_of([("one", [("m", cost(0.3, CostSource.TYPICAL))]), ("two", [("m", measured)])])
    assert costs("m", "") == measured
