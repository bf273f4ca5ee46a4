import pytest

from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation
from tests.paths import DATA

PAGES = DATA / "pages"


@pytest.fixture
def make_simulation():
    """Function that simulates a scenario from its keys."""

    def make(seed=0, **keys):
        return Simulation(Scenario.model_validate(keys), seed)

    return make


@pytest.fixture
def recorded():
    """Function that reads a recorded page of a real vLLM."""
    return lambda name: (PAGES / name).read_text()
