"""A server that reports its K is restarted: its windows begin once, with the new process, and with its K."""

from __future__ import annotations

import json

import pytest

CONFIG = "windows: [30s, 2m]\n"
FILE = f"targets: [{{url: 'http://vllm:8000/metrics', name: one}}]\n{CONFIG}"
DOWN = 3.0


def scenario(front_end, before, after, restart_at):
    return f"""
front_end: {front_end}
dev_mode: true
load: {{concurrency: 24}}
speculation: {{tokens: {before}}}
phases:
  - {{at: {restart_at:.0f}s, restart: {{down: {DOWN:.0f}s, tokens: {after}}}}}
"""


async def engine_of(running):
    (engine,) = json.loads(await running.get("api/v1/snapshot"))["engines"]
    return engine


# Server info is requested at most once a minute: soon after the start, its last answer is of the old process.
@pytest.mark.parametrize("restart_at", [30.0, 90.0])
@pytest.mark.parametrize("front_end", ["python", "rust"])
@pytest.mark.parametrize(("before", "after"), [(5, 3), (3, 5), (4, 4)])
async def test_windows_begin_once_with_the_new_process_and_its_k(
    story, tmp_path, front_end, before, after, restart_at
):
    async with story(scenario(front_end, before, after, restart_at), config=CONFIG) as running:
        await running.clock.advance(restart_at - 5.0)
        assert (await engine_of(running))["configured_tokens"] == before
        seconds = -5.0 - DOWN - 1.0  # since the first poll of the new process
        for passed in (18.0, 2.0, 58.0):
            await running.clock.advance(passed)
            seconds += passed
            engine = await engine_of(running)
            window = engine["windows"][-1]
            assert (engine["configured_tokens"], len(window["position_acceptance_ratio"])) == (after, after)
            if before != after:
                # Only pages of the Python front end have the time of the creation.
                assert window["seconds"] == seconds + (0.875 if front_end == "python" else 0.0)
            (tmp_path / "exporter.yml").write_text(FILE + f"cost: {{draft_cost_ratio: {passed / 100}}}\n")
            await running.service.reload()  # it uses no K of the process before
        changes = running.told("configured_tokens_changed")
        assert [(entry["before"], entry["configured_tokens"]) for entry in changes] == (
            [] if before == after else [(before, after)]
        )
        assert len(running.told("engine_reset")) == 1
