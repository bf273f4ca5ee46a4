from __future__ import annotations

import pytest

from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.timeline import changes


def timeline(*phases, repeat=None, **keys):
    return changes(Scenario.model_validate({"phases": phases, "repeat": repeat, **keys}))


def test_a_linear_change_ends_at_its_new_value():
    *_, last = timeline({"at": "1m", "over": "100s", "acceptance": {"mean": 0.5}}, acceptance={"mean": 0.9})
    means = [last.conditions.mean_acceptance(moment) for moment in (60, 85, 110, 160, 500)]
    assert means == pytest.approx([0.9, 0.8, 0.7, 0.5, 0.5])
