from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation


def make_simulation(seed=0, **keys):
    """Simulate a scenario from its keys."""
    return Simulation(Scenario.model_validate(keys), seed)
