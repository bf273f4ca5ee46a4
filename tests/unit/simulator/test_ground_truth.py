"""Ground truth of scenarios equals their simulation."""

import pytest

from spec_decode_exporter.simulator.scenario import Scenario
from spec_decode_exporter.simulator.simulation import Simulation
from tests.fakes.scenarios import scenario as load_scenario
from tests.fakes.scenarios import speedup

ALL_ACCEPTED = {"mean": 1, "spread": 0, "decay": 1}


def scenario(requests, *, cost=0.1, saturation=40, tokens=4, **keys):
    """Return a scenario of ``requests`` clients with prompts of one token, whose cost is negligible."""
    return Scenario.model_validate(
        {
            "speculation": {"tokens": tokens, "cost": cost},
            "load": {"concurrency": requests},
            "prompts": {"mean": 1, "max": 1},
            "outputs": {"mean": 1000, "max": 1000, "spread": 0},
            "machine": {"saturation": saturation, "jitter": 0, "step": "20ms"},
            **keys,
        }
    )


def step_seconds(scenario):
    simulation = Simulation(scenario)
    simulation.advance(30)
    counts = simulation.engines[0].counts
    return counts.step.total / counts.step.count


@pytest.mark.parametrize(
    ("requests", "cost", "expected"),
    [
        (8, 0.1, 0.1),  # 8 x 5 = 40 tokens: just bound by memory
        (16, 0.1, (2.0 - 1 + 0.4) / 4),  # 80 tokens
        (60, 0.1, (7.5 - 1.5 + 0.4) / 4 / 1.5),  # 300 tokens; without drafts 60, bound by compute too
    ],
)
def test_the_cost_of_a_draft_token_is_the_additional_step_time(requests, cost, expected):
    drafting, plain = scenario(requests, cost=cost), scenario(requests, tokens=0)
    assert drafting.draft_cost_ratio(requests) == pytest.approx(expected)
    longer = step_seconds(drafting) / step_seconds(plain) - 1
    assert longer / 4 == pytest.approx(expected, rel=0.02)


def test_a_step_without_drafts_of_a_schedule_contains_the_drafter_s_first_pass():
    paused = {"tokens": 4, "cost": 0.1, "tokens_per_batch_size": [[1, 64, 0]]}
    longer = step_seconds(scenario(8, speculation=paused)) / step_seconds(scenario(8, tokens=0))
    assert longer == pytest.approx(1.1, rel=0.01)
    searching = scenario(8, speculation={**paused, "method": "ngram"})
    assert step_seconds(searching) == pytest.approx(step_seconds(scenario(8, tokens=0)), rel=0.01)


def test_the_speedup_is_the_tokens_of_a_step_over_its_cost_between_the_moments():
    worse = {"at": "40s", "acceptance": {"mean": 0}}
    drafting = scenario(8, acceptance=ALL_ACCEPTED, phases=[worse])
    assert speedup(drafting, 0, 40) == pytest.approx(5 / 1.4, rel=0.02)
    assert speedup(drafting, 100, 130) == pytest.approx(1 / 1.4, rel=0.02)


@pytest.mark.parametrize(
    ("name", "begin", "end", "expected"),
    [
        ("steady", 0, 150, 2.0),
        ("harmful", 0, 150, 0.73),
        ("overload", 60, 120, 1.6),
        ("overload", 120, 210, 0.7),
        ("dynamic", 0, 120, 1.4),
        ("dynamic", 120, 240, 1.0),
    ],
)
def test_the_speedups_of_the_scenarios_are_as_described(name, begin, end, expected):
    assert speedup(load_scenario(name), begin, end) == pytest.approx(expected, rel=0.06)
