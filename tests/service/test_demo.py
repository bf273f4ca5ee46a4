"""The demo of ``make run``: an engine that pays probably, measures its cost by a schedule, and then surely pays."""

import json

import aiohttp

from spec_decode_exporter.analysis.verdict import Verdict
from spec_decode_exporter.reports.recommendation import written_measuring
from spec_decode_exporter.reports.saved_snapshot import parsed
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.simulator.scenario import load_scenario
from tests.fakes.moved_fleet import Server, moved_fleet

SCENARIO = load_scenario("measure")


async def snapshot(fleet):
    async with aiohttp.ClientSession() as client, client.get(f"{fleet.url}api/v1/snapshot") as answer:
        return await answer.read()


async def test_the_demo_becomes_sure_by_the_schedule_that_recommend_prints_for_it():
    (phase,) = SCENARIO.phases
    async with moved_fleet([Server("demo", "measure", told=SCENARIO.target_settings())]) as fleet:
        await fleet.advance(phase.at - 60)
        (before,) = parsed(await snapshot(fleet)).engines
        assert before.verdict is Verdict.UNCLEAR
        assert before.verdict_text.startswith("Speculation probably pays: ")
        printed = written_measuring([before], "vllm", TextStyle())
        (line,) = [line for line in printed.splitlines() if not line.startswith("#")]
        setting = json.loads(line.removeprefix("--speculative-config ").strip("'"))
        *ranges, last = setting["num_speculative_tokens_per_batch_size"]
        *served, rest = phase.restart.tokens_per_batch_size
        assert (ranges, last[::2]) == ([list(each) for each in served], list(rest[::2]))
        for _ in range(13):  # a minute, the restart and two minutes, on a page that is read
            await fleet.advance(15)
            (after,) = json.loads(await snapshot(fleet))["engines"]
        assert (after["cost"]["source"], after["pays_share_ratio"]) == ("measured", 1)
