"""Scenarios: their defaults, files, mistakes, and the changes of their phases."""

import pytest
from pydantic import ValidationError

from spec_decode_exporter.config.mistakes import ConfigError
from spec_decode_exporter.simulator.scenario import Load, Scenario, load_scenario


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"load": {}}, "exactly one"),
        ({"load": {"rate": 1, "concurrency": 2}}, "exactly one"),
        ({"load": {"rate": 1, "swing": 0.5}}, "give that instead of `rate`"),
        ({"machine": {"kv_tokens": 1000, "max_model_len": 4000}}, "kv_tokens"),
        ({"machine": {"max_batched_tokens": 100, "max_requests": 64}}, "max_batched_tokens"),
        ({"speculation": {"tokens_per_batch_size": [[1, 16, 4], [16, 20, 0]]}}, "overlap"),
        *(({"phases": phases, "repeat": "5m"}, "order the phases") for phases in (
            [{"at": "2m"}, {"at": "1m"}],
            [{"at": "1m"}, {"at": "1m"}],
            [{"at": "6m"}],
        )),
    ],
)  # fmt: skip
def test_what_no_server_could_be_is_refused_with_the_reason(keys, message):
    with pytest.raises(ValidationError) as caught:
        Scenario.model_validate(keys)
    assert message in " ".join(error["msg"] for error in caught.value.errors())


def test_a_scenario_may_be_a_file_and_an_empty_one_is_steady(tmp_path):
    file = tmp_path / "drill.yml"
    file.write_text("speculation: {tokens: 7}\nphases:\n  - at: 90s\n    acceptance: {mean: 0.2}\n")
    scenario = load_scenario(str(file))
    assert (scenario.speculation.tokens, scenario.phases[0].at) == (7, 90)
    file.write_text("")
    steady = load_scenario("steady").model_dump(exclude={"description"})
    assert load_scenario(str(file)).model_dump(exclude={"description"}) == steady


def test_the_clients_of_a_load_swing_around_their_number():
    load = Load(concurrency=14, swing=0.5, period="1m")
    assert [load.clients(moment) for moment in (0, 15, 30, 45, 60)] == [14, 21, 14, 7, 14]
    assert Load(concurrency=3).clients(15) == 3


def test_operators_know_no_cost_of_a_scenario_that_says_so():
    known = {"speculation": {"method": "eagle3"}, "cost_known": False}
    assert Scenario.model_validate(known).target_settings() == {"speculative": {"method": "eagle3"}}


def test_an_unknown_name_and_a_directory_cannot_be_read(tmp_path):
    for name in ("dropp", str(tmp_path)):
        with pytest.raises(ConfigError, match=f"^{name} cannot be read"):
            load_scenario(name)
