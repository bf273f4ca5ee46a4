from __future__ import annotations

from itertools import islice, pairwise

import pytest

from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.simulator.scenario_library import load_scenario, read_scenario
from spec_decode_exporter.simulator.timeline import changes


def problems(text):
    with pytest.raises(ConfigError) as caught:
        read_scenario(text.encode(), "drill.yml")
    return [str(problem) for problem in caught.value.problems]


def test_a_scenario_may_be_a_file(tmp_path):
    file = tmp_path / "drill.yml"
    file.write_text("speculation: {tokens: 7}\nphases:\n  - at: 90s\n    acceptance: {mean: 0.2}\n")
    scenario = load_scenario(str(file))
    assert (scenario.speculation.tokens, scenario.phases[0].at) == (7, 90)


def test_an_empty_file_is_the_steady_scenario():
    assert read_scenario(b"", "empty.yml").engines == 1


def test_the_error_of_an_unknown_name_lists_the_scenarios():
    with pytest.raises(ConfigError, match=r"dropp is neither a file nor a scenario; .* drop, "):
        load_scenario("dropp")


def test_a_directory_is_not_a_scenario(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_scenario(str(tmp_path))


def test_each_problem_has_its_line_and_a_remedy():
    text = "engines: 0\nspeculation:\n  token: 4\nphases:\n  - at: 5 minutes\n"
    first, second, third = problems(text)
    assert first == "drill.yml:1: engines must be at least 1"
    assert second.startswith("drill.yml:3: speculation.token is not a known key here; did you mean `tokens`?")
    assert third.startswith("drill.yml:5: phases[0].at is not a duration; write a number with its unit")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- drop\n", "drill.yml:1 must be a mapping"),
        ("just words", "drill.yml:1 must be a mapping"),
        ("engines: 1\nengines: 2\n", "drill.yml:2: engines is there twice"),
        ("engines: 1\nload: {rate: 1\n", "drill.yml:3"),
    ],
)
def test_a_scenario_is_a_mapping_with_each_key_once(text, said):
    (problem,) = problems(text)
    assert problem.startswith(said)


def test_in_slow_drift_acceptance_falls_only_over_hours():
    _, drift, *_ = islice(changes(load_scenario("slow-drift")), 3)
    means = [drift.conditions.mean_acceptance(drift.at + 60 * minute) for minute in range(181)]
    assert means[0] - means[-1] > 0.3
    assert max(earlier - later for earlier, later in pairwise(means)) < 0.002
