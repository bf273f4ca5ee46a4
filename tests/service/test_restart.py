"""Restarts with another K."""

import pytest

from tests.service.conftest import story

CONFIG = "windows: [30s, 2m]\n"
FILE = f"targets: [{{url: 'http://vllm:8000/metrics', name: one}}]\n{CONFIG}"
DOWN = 3.0
SCENARIO = """
dev_mode: true
load: {concurrency: 24}
speculation: {tokens: %d}
phases:
  - {at: %ds, restart: {down: %ds, tokens: %d}}
"""


# Server info is requested at most once a minute: soon after the start, its last answer is of the old process.
@pytest.mark.parametrize(("before", "after", "restart_at"), [(5, 3, 30.0), (3, 5, 90.0), (4, 4, 30.0)])
async def test_windows_begin_once_with_the_new_process_and_its_k(
    tmp_path, clock, network, before, after, restart_at
):
    scenario = SCENARIO % (before, restart_at, DOWN, after)
    async with story(tmp_path, clock, network, scenario, config=CONFIG) as told:
        await told.clock.advance(restart_at - 5.0)
        (engine,) = (await told.json("api/v1/snapshot"))["engines"]
        assert engine["configured_tokens"] == before
        seconds = -5.0 - DOWN - 1.0  # since the first poll of the new process
        for passed in (18.0, 2.0, 58.0):
            await told.clock.advance(passed)
            seconds += passed
            (engine,) = (await told.json("api/v1/snapshot"))["engines"]
            window = engine["windows"][-1]
            assert (engine["configured_tokens"], len(window["position_acceptance_ratio"])) == (after, after)
            if before != after:
                assert window["seconds"] == seconds + 0.875  # since the creation of the counters
            await told.reload(FILE + f"cost: {{draft_cost_ratio: {passed / 100}}}\n")  # it uses no earlier K
        changes = [
            (entry["before"], entry["configured_tokens"]) for entry in told.told("configured_tokens_changed")
        ]
        assert changes == ([] if before == after else [(before, after)])
        assert len(told.told("engine_reset")) == 1
