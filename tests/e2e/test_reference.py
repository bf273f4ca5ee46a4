"""The installed program measures a simulated server over real sockets, before and after a change, as a script does."""

from __future__ import annotations

import json
import subprocess
from itertools import count

import pytest

WORSE = """
description: The same server with a drafter that knows the model less well, as after a careless quantisation.
acceptance: {mean: 0.6}
"""


@pytest.fixture
def reference(e2e, start, tmp_path):
    """Run the command for ten seconds against a server of a scenario, on which twenty times as many pass."""

    numbers = count(1)

    class Simulator(e2e.Running):
        def __init__(self, folder, scenario):
            self.address = f"127.0.0.1:{e2e.free_port()}"
            words = ("--scenario", scenario, "--speed", 20, "--listen-address", self.address)
            super().__init__(f"simulator-{next(numbers)}", [e2e.PROGRAM, "simulate", *words], folder)

    def reference(*words, scenario):
        simulator = start(Simulator, scenario)
        simulator.wait_for(f"http://{simulator.address}/health")
        return subprocess.run(
            [e2e.PROGRAM, "observe", simulator.address_url, "--for", "10s", *words],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )  # fmt: skip

    Simulator.address_url = property(lambda self: f"http://{self.address}/metrics")
    return reference


def test_a_change_that_costs_acceptance_ends_with_4_and_none_with_0(reference, tmp_path):
    (tmp_path / "worse.yml").write_text(WORSE)
    saved = reference("--save", tmp_path / "before.json", scenario="steady")
    assert saved.returncode == 0
    assert "before.json: saved, 'meta-llama/Llama-3.1-8B-Instruct' accepts 4" in saved.stderr
    assert "Speculation pays" in saved.stdout

    same = reference("--against", tmp_path / "before.json", scenario="steady")
    assert (same.returncode, same.stderr) == (0, "")
    assert "certainly no fall of more than 5" in " ".join(same.stdout.split())

    fell = reference(
        "--against",
        tmp_path / "before.json",
        "--format",
        "json",
        scenario=str(tmp_path / "worse.yml"),
    )
    assert fell.returncode == 4
    (model,) = json.loads(fell.stdout)["models"]
    assert "more than 5, and beyond chance" in model["text"]
    assert model["quantities"]["time_per_output_token_seconds"]["change"] > 0


def test_two_servers_are_compared_at_the_same_time(e2e, start, reference, tmp_path):
    (tmp_path / "worse.yml").write_text(WORSE)

    class Other(e2e.Running):
        def __init__(self, folder):
            self.address = f"127.0.0.1:{e2e.free_port()}"
            words = ("--scenario", "steady", "--speed", 20, "--listen-address", self.address)
            super().__init__("other", [e2e.PROGRAM, "simulate", *words], folder)

    other = start(Other)
    other.wait_for(f"http://{other.address}/health")
    fell = reference("--against", other.address, scenario=str(tmp_path / "worse.yml"))
    assert fell.returncode == 4
    assert "Acceptance compared with a reference" in fell.stdout


def test_what_cannot_be_measured_ends_with_1(e2e, tmp_path):
    words = [e2e.PROGRAM, "observe", "--save", tmp_path / "a.json", f"http://127.0.0.1:{e2e.free_port()}"]
    found = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert found.returncode == 1
    assert "refused" in found.stderr
    assert not (tmp_path / "a.json").exists()
