"""Baselines without speculation of earlier processes."""

from __future__ import annotations

import json

import pytest

from spec_decode_exporter.monitor.learned_baseline import LearnedBaseline
from spec_decode_exporter.monitor.persistence.remembered_baselines import (
    KEPT_SECONDS,
    MAX_BASELINES,
    MAX_KEY_LENGTH,
    MAX_MODELS,
    BaselineKey,
    RememberedBaselines,
)
from spec_decode_exporter.monitor.persistence.remembered_engines import RememberedEngines
from spec_decode_exporter.monitor.persistence.state_file import StateFile
from spec_decode_exporter.monitor.step_blocks import MAX_SAVED_BLOCKS
from spec_decode_exporter.monitor.step_times import MAX_SAVED_LOADS
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.increments import Increment

from .full_state import full_state

KEY = BaselineKey("chat", "llama")
END = 1_790_000_000.0


def learned(end=END, loads=(8.0,), polls=60):
    baseline = LearnedBaseline()
    for load in loads:
        for number in range(polls):
            counters = tuple(100 + number for _ in Counter)
            wall = end - polls + number + 1
            baseline.plain(Increment(wall - 1.0, wall, counters, ()), load, wall, knows_steps=True)
    return baseline


def kept(*ends, target="chat"):
    baselines = RememberedBaselines()
    for number, end in enumerate(ends):
        baselines.keep(BaselineKey(target, f"model {number}"), learned(end))
    return baselines


def models(baselines, now=END):
    return [entry["model_name"] for entry in baselines.saved(now)["entries"]]


def test_the_engines_of_a_model_on_a_target_share_one():
    baselines = RememberedBaselines()
    one = baselines.of(KEY)
    assert baselines.of(KEY) is one
    assert baselines.of(KEY._replace(model_name="other")) is not one
    assert baselines.of(KEY._replace(target="other")) is not one


def test_an_unused_one_that_is_not_kept_is_released():
    baselines = RememberedBaselines()
    baselines.of(KEY)
    assert not baselines._used


def test_it_survives_being_written_as_json_with_the_engines(tmp_path):
    engines = RememberedEngines()
    engines.baselines.keep(KEY, learned())
    StateFile(tmp_path / "state.json").save(engines.saved(END))
    again = RememberedEngines()
    again.recall(StateFile(tmp_path / "state.json").load())
    assert again.baselines.of(KEY).saved() == learned().saved()
    assert again.saved(END) == engines.saved(END)


def test_a_baseline_that_an_engine_uses_already_is_restored_in_place():
    saved = kept(END).saved(END)
    baselines = RememberedBaselines()
    used = baselines.of(BaselineKey("chat", "model 0"))
    baselines.recall(json.loads(json.dumps(saved)))
    assert used.end == END


def test_a_present_one_precedes_the_recalled_one():
    baselines = kept(END + 100)
    baselines.recall(kept(END).saved(END))
    assert baselines.of(BaselineKey("chat", "model 0")).end == END + 100


def test_an_empty_one_is_not_kept():
    baselines = RememberedBaselines()
    baselines.keep(KEY, LearnedBaseline())
    assert models(baselines) == []


def test_one_with_longer_names_is_not_kept():
    baselines = RememberedBaselines()
    baselines.keep(BaselineKey("t", "m" * (MAX_KEY_LENGTH - 1)), learned())
    baselines.keep(BaselineKey("t", "m" * MAX_KEY_LENGTH), learned())
    assert [len(name) for name in models(baselines)] == [MAX_KEY_LENGTH - 1]


def test_one_is_forgotten_after_a_season_or_if_it_is_of_the_future():
    assert models(kept(END), END + KEPT_SECONDS) == ["model 0"]
    assert models(kept(END), END + KEPT_SECONDS + 1) == []
    assert models(kept(END), END - 86_400.0) == ["model 0"]
    assert models(kept(END), END - 86_401.0) == []


def test_of_too_many_the_oldest_leave():
    baselines = RememberedBaselines()
    for number in range(MAX_BASELINES + 3):
        baselines.keep(BaselineKey(f"target {number}", "m"), learned(END + number))
    targets = [entry["target"] for entry in baselines.saved(END)["entries"]]
    assert targets == [f"target {number}" for number in range(3, MAX_BASELINES + 3)]


def test_a_target_with_ever_new_models_takes_the_place_of_no_other_target():
    baselines = kept(END)
    for number in range(3 * MAX_BASELINES):
        baselines.keep(BaselineKey("hostile", str(number)), learned(END + number))
    assert models(baselines)[0] == "model 0"
    assert len(models(baselines)) == MAX_MODELS + 1


def test_a_file_of_the_most_baselines_beside_engines_is_read_back(tmp_path):
    loads = [float(2**power) for power in range(MAX_SAVED_LOADS + 2)]
    largest = learned(loads=loads, polls=MAX_SAVED_BLOCKS).saved()
    assert len(largest["steps"]) == MAX_SAVED_LOADS
    entry = {"target": "", "model_name": "\N{ROCKET}" * MAX_KEY_LENGTH, "learned": largest}
    engine = {
        "target": "",
        "model_name": "\N{ROCKET}" * MAX_KEY_LENGTH,
        "engine": "0",
        "seen": 1e9,
        "learnt": full_state(),
    }
    file = StateFile(tmp_path / "state.json")
    file.save({"engines": [engine] * 2000, "baselines": {"format": 1, "entries": [entry] * MAX_BASELINES}})
    assert len(StateFile(tmp_path / "state.json").load()["baselines"]["entries"]) == MAX_BASELINES


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        "text",
        [],
        {},
        {**KEY._asdict()},
        {**KEY._asdict(), "learned": None},
        {**KEY._asdict(), "learned": {"seconds": "long"}},
    ],
)
def test_an_invalid_entry_is_omitted_and_the_others_are_kept(entry):
    good = kept(END).saved(END)["entries"]
    baselines = RememberedBaselines()
    baselines.recall({"format": 1, "entries": [entry, *good]})
    assert models(baselines) == ["model 0"]


@pytest.mark.parametrize(
    "saved", [None, 7, [], {}, {"format": 2}, {"format": 1}, {"format": 1, "entries": {"a": 1}}]
)
def test_another_format_is_ignored(saved):
    baselines = RememberedBaselines()
    baselines.recall(saved)
    assert models(baselines) == []
