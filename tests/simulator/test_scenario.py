from __future__ import annotations

import pytest
from pydantic import ValidationError

from spec_decode_exporter.simulator.scenario import Scenario


def messages(**keys):
    with pytest.raises(ValidationError) as caught:
        Scenario.model_validate(keys)
    return " ".join(error["msg"] for error in caught.value.errors())


def test_the_defaults_depend_on_the_method():
    ngram = Scenario.model_validate({"speculation": {"method": "ngram"}}).speculation
    draft = Scenario.model_validate({"speculation": {"method": "draft_model"}}).speculation
    own = Scenario.model_validate({"speculation": {"method": "ngram", "coverage": 0.9}}).speculation
    assert ngram.coverage < own.coverage == 0.9 < draft.coverage == 1
    assert ngram.cost == 0 < draft.cost


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"load": {}}, "exactly one"),
        ({"load": {"rate": 1, "concurrency": 2}}, "exactly one"),
        ({"model_name": 'a"b'}, "without quotes"),
        ({"front_end": "rust", "api_servers": 2}, "only the Python front end"),
        ({"machine": {"kv_tokens": 1000, "max_model_len": 4000}}, "kv_tokens"),
        ({"machine": {"max_batched_tokens": 100, "max_requests": 64}}, "max_batched_tokens"),
        ({"phases": [{"at": "1m", "over": "1m", "acceptance": {"decay": 0.5}}]}, "acceptance.mean"),
        ({"acceptance": {"decay": float("nan")}}, "finite"),
        ({"speculation": {"tokens_per_batch_size": [[1, 16, 4], [16, 20, 0]]}}, "[[1, 16, 4], [17, 64, 0]]"),
    ],
)
def test_what_no_server_could_be_is_refused_with_the_reason(keys, message):
    assert message in messages(**keys)


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
