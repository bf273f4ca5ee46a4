from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.generate.configuration import json_schema
from spec_decode_exporter.config.batch_schedule import MAX_BATCH
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost


@pytest.mark.parametrize(
    ("cost", "ratio"),
    [
        ("draft_cost_ratio: 0.1", 0.1),
        ("draft_cost_ratio: 0", 0.0),
        ("{draft_parameters: 500M, target_parameters: 8B}", 0.0625),
        ("{draft_parameters: 1, target_parameters: '8'}", 0.125),
        ("{draft_parameters: 0.8b, target_parameters: 8B, verify_cost_ratio: 0.02}", 0.12),
        ("loads: [{running_requests: 1, draft_cost_ratio: 0.1}, {running_requests: 2, draft_cost_ratio: 0}]", None),
    ],
)  # fmt: skip
def test_the_cost_is_stated_in_one_of_three_ways(read, cost, ratio):
    cost = cost if cost.startswith("{") else f"{{{cost}}}"
    assert read(f"cost: {cost}").cost.ratio == (ratio and pytest.approx(ratio))


@given(
    st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=6, unique=True).flatmap(
        lambda loads: st.tuples(st.just(loads), st.permutations(loads))
    )
)
def test_loads_are_sorted(loads):
    known, written = loads
    cost = CostSettings(loads=[LoadCost(running_requests=load, draft_cost_ratio=0.1) for load in written])
    assert [load.running_requests for load in cost.loads] == sorted(known)


def test_a_target_may_have_a_cost_beside_the_general_one(read):
    text = "cost: {draft_cost_ratio: 0.1}\ntargets: [{url: http://a, cost: {draft_cost_ratio: 0.2, running_requests: 8}}]"
    config = read(text)
    assert (config.cost.ratio, config.targets[0].cost.ratio) == (0.1, 0.2)


def test_speculation_of_a_server_is_loaded_and_its_schedule_is_sorted_without_gaps(read):
    keys = "method: ngram, tokens: 5, draft_model: org/small, expected_positions: [0.87, 0.8, 1, 0]"
    text = f"targets: [{{url: http://a, speculative: {{{keys}, schedule: [[16, 64, 0], [1, 3, 4], [4, 7, 2]]}}}}]"
    found = read(text).targets[0].speculative
    assert (found.method, found.tokens, found.draft_model) == ("ngram", 5, "org/small")
    assert found.expected_positions == (0.87, 0.8, 1.0, 0.0)
    assert found.schedule == ((1, 3, 4), (4, 15, 2), (16, MAX_BATCH, 0))


def test_the_schema_accepts_parameters_as_text_or_number():
    parameters = json.loads(json_schema())["$defs"]["CostSettings"]["properties"]["draft_parameters"]["anyOf"]
    assert parameters[0]["type"] == ["string", "number"]
