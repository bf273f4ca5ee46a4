"""The fleet of the pictures is one that the simulator and the exporter accept."""

from __future__ import annotations

import pytest
import yaml

from grafana.__main__ import BOARDS
from grafana.render.__main__ import SHOWN
from grafana.render.fleet import FLEET
from grafana.render.stack import _scenario
from spec_decode_exporter.config.load import load
from spec_decode_exporter.simulator.scenario_library import load_scenario, scenario_names


@pytest.mark.parametrize("server", FLEET, ids=lambda server: server.name)
def test_the_simulator_runs_it(server, tmp_path):
    assert server.scenario in scenario_names()
    scenario = load_scenario(str(_scenario(server, tmp_path)))
    assert scenario.model_name == server.model


def test_the_exporter_watches_it(tmp_path):
    path = tmp_path / "exporter.yml"
    targets = [server.target(f"http://127.0.0.1:{port}/metrics") for port, server in enumerate(FLEET, 8000)]
    path.write_text(yaml.safe_dump({"targets": targets}))
    config = load(path, environ={})
    assert len(config.targets) == len(FLEET)


def test_names_are_unique_and_the_shown_engine_is_among_them():
    names = [server.name for server in FLEET]
    assert len(names) == len(set(names))
    assert SHOWN in names
    assert "spec-decode-engine" in BOARDS


def test_one_arm_is_the_baseline():
    assert [server.name for server in FLEET if server.arm == "baseline"] == ["trial-off"]
