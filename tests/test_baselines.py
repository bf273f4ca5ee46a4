"""What is known of engines from before."""

from __future__ import annotations

import json

import pytest

from exporter.baselines import REMEMBERED, Baselines, Key

KEY = Key("one", "llama", "0")


def recalled(saved):
    baselines = Baselines()
    baselines.recall(saved)
    return baselines


def test_what_was_kept_is_known_under_the_same_labels_only():
    baselines = Baselines()
    baselines.keep(KEY, {"tokens": 4}, 100.0)
    assert baselines.known(KEY) == {"tokens": 4}
    assert baselines.known(KEY._replace(engine="1")) is None


def test_it_survives_being_written_as_json():
    baselines = Baselines()
    baselines.keep(KEY, {"tokens": 4, "drops": {"mean": 2.5}}, 100.0)
    again = recalled(json.loads(json.dumps(baselines.saved(200.0))))
    assert again.known(KEY) == {"tokens": 4, "drops": {"mean": 2.5}}
    assert again.saved(200.0) == baselines.saved(200.0)


def test_an_engine_is_forgotten_after_a_week():
    baselines = Baselines()
    baselines.keep(KEY, {}, 100.0)
    assert len(baselines.saved(100.0 + REMEMBERED)["engines"]) == 1
    assert baselines.saved(100.1 + REMEMBERED) == {"engines": []}
    assert baselines.known(KEY) is None


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        "text",
        [],
        {},
        {"target": "one", "model_name": "llama", "engine": "0", "seen": 1.0},
        {"target": "one", "model_name": "llama", "engine": "0", "seen": "late", "learnt": {}},
        {"target": "one", "model_name": "llama", "engine": "0", "seen": 1.0, "learnt": 3},
    ],
)
def test_an_entry_that_is_not_understood_is_left_out_and_the_others_stand(entry):
    good = {**KEY._asdict(), "engine": "1", "seen": 1.0, "learnt": {"tokens": 4}}
    baselines = recalled({"engines": [entry, good]})
    assert baselines.known(KEY) is None
    assert baselines.known(KEY._replace(engine="1")) == {"tokens": 4}


@pytest.mark.parametrize("saved", [{}, {"engines": None}, {"engines": {"a": 1}}])
def test_without_entries_nothing_is_known(saved):
    assert recalled(saved).saved(0.0) == {"engines": []}


def test_what_is_known_already_outweighs_what_is_recalled():
    baselines = Baselines()
    baselines.keep(KEY, {"tokens": 4}, 100.0)
    baselines.recall({"engines": [{**KEY._asdict(), "seen": 1.0, "learnt": {"tokens": 2}}]})
    assert baselines.known(KEY) == {"tokens": 4}
