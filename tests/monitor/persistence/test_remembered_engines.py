"""Learned state of engines of earlier processes."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from spec_decode_exporter.monitor.persistence.remembered_engines import (
    MAX_KEY_LENGTH,
    MAX_PER_TARGET,
    MAX_REMEMBERED,
    EngineKey,
    RememberedEngines,
)

KEY = EngineKey("one", "llama", "0")


def recalled(saved):
    baselines = RememberedEngines()
    baselines.recall(saved)
    return baselines


def test_engines_that_come_and_go_are_forgotten_without_a_state_file():
    baselines = RememberedEngines()
    with capture_logs() as logs:
        for number in range(5 * MAX_REMEMBERED):
            baselines.keep(KEY._replace(target=str(number)), {}, float(number))
    assert len(list(baselines._entries())) <= MAX_REMEMBERED + MAX_PER_TARGET
    assert baselines.known(KEY._replace(target=str(5 * MAX_REMEMBERED - 1))) == {}
    assert [log["event"] for log in logs] == ["baselines_forgotten"]


class TestTooManyEngines:
    @pytest.fixture(name="baselines")
    def baselines_fixture(self):
        """Two more than are kept; the first ones were seen last."""
        baselines = RememberedEngines()
        for number in range(MAX_REMEMBERED + 2):
            baselines.keep(EngineKey(f"target {number % 20}", "llama", str(number)), {}, 10_000.0 - number)
        return baselines

    def test_the_engines_with_the_oldest_polls_are_forgotten(self, baselines):
        kept = {entry["engine"] for entry in baselines.saved(10_000.0)["engines"]}
        assert kept == set(map(str, range(MAX_REMEMBERED)))
        assert baselines.known(EngineKey("target 0", "llama", str(MAX_REMEMBERED))) is None

    def test_forgetting_is_logged_once(self, baselines):
        with capture_logs() as logs:
            baselines.saved(10_000.0)
            for number in range(3):
                baselines.keep(KEY._replace(engine=f"late-{number}"), {}, 20_000.0)
                baselines.saved(20_000.0)
        assert logs == [
            {
                "event": "baselines_forgotten",
                "forgotten": 2,
                "most_kept": MAX_REMEMBERED,
                "log_level": "warning",
            }
        ]
        baselines.saved(20_000.0)  # they are few enough now
        baselines.keep(KEY._replace(engine="one more"), {}, 20_000.0)
        with capture_logs() as logs:
            baselines.saved(20_000.0)
        assert [entry["event"] for entry in logs] == ["baselines_forgotten"]


def test_a_target_with_ever_new_engines_takes_the_place_of_no_other_target():
    baselines = RememberedEngines()
    baselines.keep(KEY, {"tokens": 4}, 100.0)
    for number in range(2 * MAX_REMEMBERED):
        baselines.keep(EngineKey("hostile", "llama", str(number)), {}, 200.0)
    assert baselines.known(KEY) == {"tokens": 4}
    assert baselines.known(EngineKey("hostile", "llama", str(2 * MAX_REMEMBERED - 1))) == {}
    assert baselines.known(EngineKey("hostile", "llama", "0")) is None
    assert len(baselines.saved(200.0)["engines"]) == MAX_PER_TARGET + 1


def test_they_are_bounded_though_nothing_is_ever_saved():
    baselines = RememberedEngines()
    with capture_logs() as logs:
        for number in range(3 * MAX_REMEMBERED):
            baselines.keep(EngineKey(f"target {number}", "llama", "0"), {}, float(number))
    known = [
        baselines.known(EngineKey(f"target {number}", "llama", "0")) for number in range(3 * MAX_REMEMBERED)
    ]
    assert known.count({}) <= MAX_REMEMBERED + MAX_PER_TARGET
    assert known[-1] == {}
    assert [entry["event"] for entry in logs] == ["baselines_forgotten"]


def test_an_engine_with_longer_names_is_not_remembered():
    longest = EngineKey("t", "m", "e" * (MAX_KEY_LENGTH - 2))
    baselines = RememberedEngines()
    baselines.keep(longest, {}, 100.0)
    baselines.keep(longest._replace(target="tt"), {}, 100.0)
    assert baselines.known(longest) == {}
    assert len(baselines.saved(100.0)["engines"]) == 1
    saved = {**longest._asdict(), "target": "tt", "seen": 1.0, "learnt": {}}
    assert recalled({"engines": [saved]}).saved(1.0)["engines"] == []


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
def test_an_invalid_entry_is_omitted_and_the_others_are_kept(entry):
    good = {**KEY._asdict(), "engine": "1", "seen": 1.0, "learnt": {"tokens": 4}}
    baselines = recalled({"engines": [entry, good]})
    assert baselines.known(KEY) is None
    assert baselines.known(KEY._replace(engine="1")) == {"tokens": 4}


def test_present_state_precedes_the_recalled_one():
    baselines = RememberedEngines()
    baselines.keep(KEY, {"tokens": 4}, 100.0)
    baselines.recall({"engines": [{**KEY._asdict(), "seen": 1.0, "learnt": {"tokens": 2}}]})
    assert baselines.known(KEY) == {"tokens": 4}
