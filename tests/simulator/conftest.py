from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation

PAGES = Path(__file__).parents[1] / "pages"


@dataclass(frozen=True)
class Sums:
    """Counters of an engine, with the symbols of the documentation."""

    drafts: int
    draft_tokens: int
    accepted: int
    by_position: list[int]
    generation: int
    first_tokens: int
    steps: int
    finished: int


@pytest.fixture
def sums():
    """Function that returns the sums of an engine."""

    def read(engine):
        counts = engine.counts
        return Sums(
            counts.drafts,
            counts.draft_tokens,
            counts.accepted_tokens,
            counts.accepted_by_position,
            counts.generation_tokens,
            counts.first_token.count,
            counts.step.count,
            sum(counts.finished.values()),
        )

    return read


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
