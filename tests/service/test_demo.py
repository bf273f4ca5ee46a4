"""The demo of ``make run``: one of its engines has an unknown cost, and counts what others published."""

import json
import re

import aiohttp

from spec_decode_exporter.costs.methods import LAYER
from spec_decode_exporter.costs.published import published_steps
from spec_decode_exporter.simulator.scenario import load_scenario
from tests.fakes.moved_fleet import Server, moved_fleet

SCENARIO = load_scenario("unknown-cost")


async def test_the_demo_counts_published_costs_on_one_engine_and_advises_no_number_of_tokens():
    async with moved_fleet([Server("demo", "unknown-cost", told=SCENARIO.target_settings())]) as fleet:
        await fleet.advance(360)
        async with aiohttp.ClientSession() as client, client.get(f"{fleet.url}api/v1/snapshot") as answer:
            (engine,) = json.loads(await answer.read())["engines"]
    paying, costs = map(int, re.search(r"At (\d+) of (\d+) published costs", engine["verdict_text"]).groups())
    assert 0 < paying <= costs <= len(published_steps(LAYER))
    assert (engine["verdict"], engine["cost"]["source"]) == ("unclear", "typical")
    assert engine["pays_share_ratio"] == paying / costs
    assert (engine["recommendation"], engine["setting"]["tokens"]) == ("measure_cost", None)
