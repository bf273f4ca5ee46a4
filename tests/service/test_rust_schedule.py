"""vLLM's Rust front end, which counts drafts without speculation too, with a schedule that begins without drafts."""

from __future__ import annotations

import json

import pytest

SCENARIO = """
front_end: rust
dev_mode: {dev_mode}
load: {{concurrency: 4}}
speculation: {{tokens: 4, tokens_per_batch_size: [[1, 8, 0], [9, 64, 4]]}}
phases:
  - {{at: 60s, load: {{concurrency: 32}}}}
"""


@pytest.mark.parametrize(("dev_mode", "quiet"), [("true", "active"), ("false", "disabled")])
async def test_it_is_not_disabled_if_the_schedule_is_known(story, dev_mode, quiet):
    """Without the schedule, many tokens without a draft look like a server without speculation."""
    async with story(SCENARIO.format(dev_mode=dev_mode), config="windows: [30s, 2m]\n") as running:
        states = []
        for _ in range(2):
            await running.clock.advance(55.0)
            (engine,) = json.loads(await running.get("api/v1/snapshot"))["engines"]
            states.append((engine["state"], engine["totals"]["drafts"] > 0))
        assert states == [(quiet, False), ("active", True)]
