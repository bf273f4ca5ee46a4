"""Baselines without speculation of earlier processes."""

from __future__ import annotations

import pytest

from spec_decode_exporter.monitor.learned_baseline import LearnedBaseline
from spec_decode_exporter.monitor.persistence.remembered_baselines import (
    KEPT_SECONDS,
    MAX_BASELINES,
    MAX_MODELS,
    BaselineKey,
    RememberedBaselines,
)
from spec_decode_exporter.window.poll import Counters
from tests.fixtures.windows import increment

KEY = BaselineKey("chat", "llama")
END = 1_790_000_000.0


def learned(end=END, loads=(8.0,), polls=60):
    baseline = LearnedBaseline()
    for load in loads:
        for number in range(polls):
            counters = dict.fromkeys(Counters._fields, 100 + number)
            wall = end - polls + number + 1
            baseline.plain(increment(wall - 1.0, wall, load=load, **counters), load, wall, knows_steps=True)
    return baseline


def kept(*ends, target="chat"):
    baselines = RememberedBaselines()
    for number, end in enumerate(ends):
        baselines.keep(BaselineKey(target, f"model {number}"), learned(end))
    return baselines


def models(baselines, now=END):
    return [entry["model_name"] for entry in baselines.saved(now)["entries"]]


def test_a_present_one_precedes_the_recalled_one():
    baselines = kept(END + 100)
    baselines.recall(kept(END).saved(END))
    assert baselines.of(BaselineKey("chat", "model 0")).end == END + 100


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
