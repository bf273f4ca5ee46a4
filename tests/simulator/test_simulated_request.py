from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulated_request import (
    draw_request,
)
from spec_decode_exporter.simulator.timeline import changes


def draw(seed, tokens=4, longest=8192, **keys):
    conditions = next(changes(Scenario.model_validate(keys))).conditions
    return draw_request(Random(seed), conditions, 5.0, tokens, longest)


@given(st.integers(0, 1000), st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 1))
def test_survival_never_rises_from_position_to_position(seed, mean, spread, decay):
    survival = draw(seed, tokens=8, acceptance={"mean": mean, "spread": spread, "decay": decay}).survival
    assert len(survival) == 8
    assert all(0 <= later <= earlier <= 1 for earlier, later in pairwise(survival))
