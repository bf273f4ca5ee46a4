from __future__ import annotations

import pytest
from pydantic import ValidationError

from spec_decode_exporter.simulator.scenario import Scenario


def messages(**keys):
    with pytest.raises(ValidationError) as caught:
        Scenario.model_validate(keys)
    return " ".join(error["msg"] for error in caught.value.errors())


def test_an_empty_scenario_is_valid():
    assert Scenario().speculation.tokens == 4


def test_the_defaults_depend_on_the_method():
    ngram = Scenario.model_validate({"speculation": {"method": "ngram"}}).speculation
    draft = Scenario.model_validate({"speculation": {"method": "draft_model"}}).speculation
    assert ngram.coverage < 1 == draft.coverage
    assert ngram.cost == 0 < draft.cost


def test_a_configured_coverage_overrides_the_method():
    assert (
        Scenario.model_validate({"speculation": {"method": "ngram", "coverage": 0.9}}).speculation.coverage
        == 0.9
    )


@pytest.mark.parametrize("load", [{}, {"rate": 1, "concurrency": 2}])
def test_a_load_is_either_a_rate_or_a_concurrency(load):
    assert "exactly one" in messages(load=load)


def test_a_model_name_that_would_need_escapes_is_refused():
    assert "without quotes" in messages(model_name='a"b')


def test_several_api_servers_require_the_python_front_end():
    assert "only the Python front end" in messages(front_end="rust", api_servers=2)


def test_a_cache_that_could_never_hold_one_request_is_refused():
    assert "kv_tokens" in messages(machine={"kv_tokens": 1000, "max_model_len": 4000})


def test_a_step_that_could_not_hold_all_drafts_is_refused():
    assert "max_batched_tokens" in messages(machine={"max_batched_tokens": 100, "max_requests": 64})


@pytest.mark.parametrize(
    "phases",
    [
        [{"at": "2m"}, {"at": "1m"}],
        [{"at": "1m"}, {"at": "1m"}],
        [{"at": "1m", "restart": {"down": "30s"}}, {"at": "80s"}],
        [{"at": "1m", "over": "1m", "acceptance": {"mean": 0.1}}, {"at": "90s"}],
        [{"at": "6m"}],
        [{"at": "290s", "restart": {"down": "20s"}}],
    ],
)
def test_phases_must_not_overlap_each_other_nor_the_repetition(phases):
    assert "order the phases" in messages(phases=phases, repeat="5m")


def test_a_glide_needs_a_mean_to_glide_to():
    assert "acceptance.mean" in messages(phases=[{"at": "1m", "over": "1m", "acceptance": {"decay": 0.5}}])


def test_nan_is_refused():
    assert "finite" in messages(acceptance={"decay": float("nan")})


@pytest.mark.parametrize(
    "schedule",
    [
        [[2, 16, 4]],
        [[1, 16, 4], [16, 20, 0]],
        [[1, 16, 4], [30, 20, 0]],
        [[0, 16, 4]],
        [[5, 4, 4]],
        [[1, 16]],
    ],
)
def test_a_schedule_that_vllm_would_refuse_is_refused(schedule):
    assert messages(speculation={"tokens_per_batch_size": schedule})


def test_the_error_of_an_overlapping_schedule_has_an_example():
    schedule = [[1, 16, 4], [16, 20, 0]]
    assert "[[1, 16, 4], [17, 64, 0]]" in messages(speculation={"tokens_per_batch_size": schedule})
