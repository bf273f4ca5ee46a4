"""What each number of draft tokens did, as `recommend` prints it."""

import json

import pytest

from spec_decode_exporter.reports.recommendation import written
from spec_decode_exporter.reports.saved_snapshot import parsed
from spec_decode_exporter.reports.text import TextStyle

SCENARIO = """
load: {concurrency: 4}
speculation: {tokens: 4, cost: 0.1}
prompts: {mean: 1000, spread: 0.1}
phases:
  - {at: 14m, prompts: {mean: 4000, spread: 0.1}, acceptance: {mean: 0.4}}
  - {at: 28m, restart: {down: 3s, tokens: 2}}
"""
CONFIG = "windows: [30s, 2m]\ncost: {draft_cost_ratio: 0.1, running_requests: 4}\n"


@pytest.mark.slow
async def test_recommend_has_what_each_number_did(story):
    async with story(SCENARIO, config=CONFIG) as told:
        await told.clock.advance(27.9 * 60)
        text, _ = await recommended(told)
        assert "in use" not in text  # one number alone is what the verdict is about

        await told.clock.advance(14 * 60.0)
        text, engine = await recommended(told)
        two, four = engine["used_tokens"]
        assert (two["tokens"], four["tokens"]) == (2, 4)
        assert 12 * 60 <= two["seconds"] <= 14 * 60
        assert 26 * 60 <= four["seconds"] <= 28 * 60
        assert four["end"] < two["begin"]
        for each in (two, four):
            for name in ("acceptance_length_tokens", "estimated_speedup_ratio"):
                assert each[name]["lower"] < each[name]["value"] < each[name]["upper"]
        assert text.count(" UTC |") == 2


async def recommended(told):
    """Return the text of the recommendation, and the document of the engine."""
    snapshot = await told.get("api/v1/snapshot")
    text = written(parsed(snapshot.encode()).engines, "text", TextStyle())
    return text, json.loads(snapshot)["engines"][0]
