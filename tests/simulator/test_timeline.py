from __future__ import annotations

from itertools import islice

import pytest

from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.timeline import changes


def timeline(*phases, repeat=None, **keys):
    return changes(Scenario.model_validate({"phases": phases, "repeat": repeat, **keys}))


def test_the_first_change_is_the_scenario_itself():
    first = next(timeline(acceptance={"mean": 0.6}, load={"rate": 3}))
    assert (first.at, first.conditions.acceptance.mean, first.conditions.load.rate) == (0, 0.6, 3)


def test_without_a_repetition_the_last_phase_holds():
    assert [change.at for change in timeline({"at": "1m"}, {"at": "2m"})] == [0, 60, 120]


def test_with_a_repetition_the_scenario_starts_again():
    found = list(
        islice(timeline({"at": "1m", "acceptance": {"mean": 0.1}}, repeat="5m", acceptance={"mean": 0.9}), 4)
    )
    assert [change.at for change in found] == [0, 60, 300, 360]
    assert [change.conditions.acceptance.mean for change in found] == [0.9, 0.1, 0.9, 0.1]


def test_keys_that_a_phase_omits_stay():
    *_, last = timeline(
        {"at": "1m", "acceptance": {"mean": 0.2}},
        {"at": "2m", "coverage": 0},
        {"at": "3m", "load": {"concurrency": 1}},
        acceptance={"decay": 0.5},
    )
    conditions = last.conditions
    assert (conditions.acceptance.mean, conditions.acceptance.decay) == (0.2, 0.5)
    assert (conditions.coverage, conditions.load.concurrency) == (0, 1)


def test_a_linear_change_ends_at_its_new_value():
    *_, last = timeline({"at": "1m", "over": "100s", "acceptance": {"mean": 0.5}}, acceptance={"mean": 0.9})
    means = [last.conditions.mean_acceptance(moment) for moment in (60, 85, 110, 160, 500)]
    assert means == pytest.approx([0.9, 0.8, 0.7, 0.5, 0.5])


def test_a_phase_after_a_linear_change_takes_effect_at_once():
    *_, last = timeline(
        {"at": "1m", "over": "1m", "acceptance": {"mean": 0.5}}, {"at": "3m", "acceptance": {"mean": 0.9}}
    )
    assert last.conditions.mean_acceptance(180) == 0.9
