from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.generate.configuration import json_schema
from spec_decode_exporter.config.batch_schedule import MAX_BATCH
from spec_decode_exporter.config.cost_settings import CostSettings, LoadCost, SpeculativeSettings
from spec_decode_exporter.config.load import active_yaml


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


@pytest.mark.parametrize(
    ("cost", "reported"),
    [
        ("{}", ["cost has no cost; add `draft_cost_ratio`, `draft_parameters` with `target_parameters`, or `loads`"]),
        ("{fixed_cost_ratio: 0.1}", ["cost has no cost; add `draft_cost_ratio`, `draft_parameters` with `target_parameters`, or `loads`"]),
        ("{draft_cost_ratio: 0, draft_parameters: 1B, target_parameters: 8B}", [
            "cost.draft_parameters is a second way to state the cost, beside `draft_cost_ratio`; remove one of the two",
            "cost.target_parameters is a second way to state the cost, beside `draft_cost_ratio`; remove one of the two",
        ]),
        ("{target_parameters: 8B, draft_parameters: 1B, loads: [{running_requests: 1, draft_cost_ratio: 0}, {running_requests: 2, draft_cost_ratio: 0}]}",
         ["cost.loads is a second way to state the cost, beside `draft_parameters`; remove one of the two"]),
        ("{draft_parameters: 1B}", ["cost.draft_parameters needs `target_parameters`, which is missing; add it"]),
        ("{target_parameters: 1B}", ["cost.target_parameters needs `draft_parameters`, which is missing; add it"]),
        ("{draft_cost_ratio: 0.1, target_parameters: 1B}", [
            "cost.target_parameters is a second way to state the cost, beside `draft_cost_ratio`; remove one of the two",
        ]),
        ("{draft_parameters: 8B, target_parameters: 500M}", ["cost.draft_parameters is more than `target_parameters`; swap the two"]),
        ("{draft_cost_ratio: 0.1, verify_cost_ratio: 0.1}", ["cost.verify_cost_ratio is part of `draft_cost_ratio` already; remove it"]),
        ("{running_requests: 4, loads: [{running_requests: 1, draft_cost_ratio: 0}, {running_requests: 2, draft_cost_ratio: 0}]}",
         ["cost.running_requests cannot be set beside `loads`, which have their own; remove it"]),
        ("{verify_cost_ratio: 1, loads: [{running_requests: 1, draft_cost_ratio: 0}, {running_requests: 2, draft_cost_ratio: 0}]}",
         ["cost.verify_cost_ratio is part of `loads` already; remove it"]),
        ("{loads: []}", ["cost.loads needs two loads or more; for one, use `draft_cost_ratio` and `running_requests`"]),
        ("{loads: [{running_requests: 1, draft_cost_ratio: 0}]}", ["cost.loads needs two loads or more; for one, use `draft_cost_ratio` and `running_requests`"]),
        ("{loads: [{running_requests: 8, draft_cost_ratio: 0}, {running_requests: 8.0, draft_cost_ratio: 1}]}",
         ["cost.loads has several costs at 8 running requests; keep one of each"]),
        ("{loads: [{running_requests: 0, draft_cost_ratio: -1}, {running_requests: 8}]}", [
            "cost.loads[0].running_requests must be more than 0",
            "cost.loads[0].draft_cost_ratio must be at least 0",
            "cost.loads[1].draft_cost_ratio is missing",
        ]),
        ("{draft_cost_ratio: -0.1}", ["cost.draft_cost_ratio must be at least 0"]),
        ("{draft_cost_ratio: nan}", ["cost.draft_cost_ratio must be a finite number, not 'nan'"]),
        ("{draft_cost_ratio: inf}", ["cost.draft_cost_ratio must be a finite number, not 'inf'"]),
        ("{draft_cost_ratio: 1, running_requests: 0}", ["cost.running_requests must be more than 0"]),
        ("{draft_parameters: 8 billion, target_parameters: 0}", [
            "cost.draft_parameters is not a number of parameters; write it as 500M, 1.5B or 8000000000",
            "cost.target_parameters must be more than 0",
        ]),
        ("{draft_parameters: [8B]}", ["cost.draft_parameters is not a number of parameters; write it as 500M, 1.5B or 8000000000"]),
        ("0.1", ["cost must be a mapping of keys to values, not '0.1'"]),
        ("{draft_cost: 0.1}", ["cost.draft_cost is not a known key here; did you mean `draft_cost_ratio`?"]),
    ],
)  # fmt: skip
def test_an_incomplete_or_contradictory_cost_is_rejected_with_a_remedy(mistakes, cost, reported):
    assert mistakes(f"log: {{}}\ncost: {cost}") == [f"2: {one}" for one in reported]


@given(
    st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=6, unique=True).flatmap(
        lambda loads: st.tuples(st.just(loads), st.permutations(loads))
    )
)
def test_loads_are_sorted(loads):
    known, written = loads
    cost = CostSettings(loads=[LoadCost(running_requests=load, draft_cost_ratio=0.1) for load in written])
    assert [load.running_requests for load in cost.loads] == sorted(known)


def test_a_redacted_cost_can_be_loaded_again(read):
    config = read("cost: {draft_cost_ratio: 0.1}\ntargets: [{url: http://a, cost: {draft_parameters: 1.5B, target_parameters: 7e9}}]".replace("7e9", "7000000000"))  # fmt: skip
    shown = active_yaml(config)
    assert "draft_parameters: 1.5B" in shown
    assert read(shown) == config


def test_expected_positions_are_loaded(read):
    text = "targets: [{url: http://a, speculative: {expected_positions: [0.87, 0.8, 1, 0]}}]"
    assert read(text).targets[0].speculative.expected_positions == (0.87, 0.8, 1.0, 0.0)


@pytest.mark.parametrize("value", ["[1.01]", "[-0.1]", "[.nan]", "0.5", "[high]", str([0.5] * 129)])
def test_expected_positions_are_shares(mistakes, value):
    [mistake] = mistakes(f"targets: [{{url: http://a, speculative: {{expected_positions: {value}}}}}]")
    assert mistake.startswith("1: targets[0].speculative.expected_positions")


def test_a_schedule_is_sorted_and_has_no_gaps(read):
    text = "targets: [{url: http://a, speculative: {schedule: [[16, 64, 0], [1, 3, 4], [4, 7, 2]]}}]"
    schedule = read(text).targets[0].speculative.schedule
    assert schedule == ((1, 3, 4), (4, 15, 2), (16, MAX_BATCH, 0))


@pytest.mark.parametrize(
    "value", ["[[0, 3, 4]]", "[[1, 3]]", "[[1, 9, 4], [8, 64, 0]]", "[[1, 3, 129]]", "4"]
)
def test_an_invalid_schedule_is_rejected(mistakes, value):
    [mistake] = mistakes(f"targets: [{{url: http://a, speculative: {{schedule: {value}}}}}]")
    assert mistake.startswith("1: targets[0].speculative.schedule")


def test_speculation_of_a_server_is_loaded(read):
    text = "targets: [{url: http://a, speculative: {method: ngram, tokens: 5, draft_model: org/small}}]"
    assert read(text).targets[0].speculative == SpeculativeSettings(
        method="ngram", tokens=5, draft_model="org/small"
    )


@pytest.mark.parametrize(
    ("keys", "reported"),
    [
        ("tokens: 0", "tokens must be at least 1"),
        ("tokens: 129", "tokens must be at most 128"),
        ("tokens: 2.5", "tokens must be a whole number, not '2.5'"),
        ("method: ''", "method must not be empty"),
        (f"draft_model: {'a' * 257}", "draft_model must be at most 256 characters long"),
        ("num_speculative_tokens: 3", "num_speculative_tokens is not a known key here; there are `method`, `tokens`, `draft_model`, `schedule`, `architecture`, `expected_positions`, `rejection_method`"),
    ],
)  # fmt: skip
def test_invalid_speculation_is_rejected(mistakes, keys, reported):
    [mistake] = mistakes(f"targets: [{{url: http://a, speculative: {{{keys}}}}}]")
    assert mistake == f"1: targets[0].speculative.{reported}"


def test_the_schema_accepts_parameters_as_text_or_number():
    parameters = json.loads(json_schema())["$defs"]["CostSettings"]["properties"]["draft_parameters"]["anyOf"]
    assert parameters[0]["type"] == ["string", "number"]
