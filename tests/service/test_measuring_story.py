"""From an unclear verdict to a sure one by a schedule that measures the cost of drafting."""

import json
import shlex

import yaml

from spec_decode_exporter.analysis.measuring_schedule import NoMeasuring
from spec_decode_exporter.analysis.verdict import PAYING, Verdict
from spec_decode_exporter.reports.recommendation import written, written_measuring
from spec_decode_exporter.reports.saved_snapshot import parsed
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.simulator.scenario import Scenario
from tests.fakes.scenarios import speedup
from tests.fakes.simulated import Server

SCENARIO = """\
model_name: acme/unknown
dev_mode: true
cost_known: false
load: {rate: 4}
acceptance: {mean: 0.7, spread: 0.1}
"""
SPECULATION = {"method": "eagle3", "draft_model": "acme/eagle", "tokens": 4, "cost": 0.06}
PRESENT = {"method": "eagle3", "model": "acme/eagle", "num_speculative_tokens": 4}
SCHEDULE = "num_speculative_tokens_per_batch_size"
SEED, MEASURED = 4, 900


def served(**more):
    return f"{SCENARIO}speculation: {json.dumps({**SPECULATION, **more})}\n"


def pasted(text):
    """Return the value of the one flag that is no comment."""
    (line,) = [line for line in text.splitlines() if not line.startswith("#")]
    flag, value = shlex.split(line)
    assert flag == "--speculative-config"
    return json.loads(value)


async def engine(told):
    (found,) = parsed((await told.get("api/v1/snapshot")).encode()).engines
    return found


async def test_a_quarter_of_an_hour_with_a_measuring_schedule_makes_an_unclear_verdict_sure(network, story):
    async with story(served()) as told:
        await told.clock.advance(420)
        before = await engine(told)
        assert (before.verdict, before.cost.source) == (Verdict.UNCLEAR, "typical")
        measuring = pasted(written_measuring([before], "vllm", TextStyle()))
        scenario = Scenario.model_validate(yaml.safe_load(served(tokens_per_batch_size=measuring[SCHEDULE])))
        assert measuring == {**PRESENT, SCHEDULE: measuring[SCHEDULE]}

        network.servers["vllm:8000"] = Server(told.clock, scenario, seed=SEED)
        await told.clock.advance(MEASURED)
        after = await engine(told)
        assert after.cost.source == "measured"
        assert after.verdict in PAYING
        counts, bounds = after.windows[-1].counts, after.windows[-1].estimated_speedup_ratio
        assert 0 < 1 - counts.drafts / counts.decode_steps < 2 * before.measuring.share_ratio
        true = speedup(scenario, MEASURED - 300, MEASURED, SEED)
        assert bounds.lower < true < bounds.upper
        assert not {"schedule_flips", "drafting_paused", "drafting_drop"} & {
            each.name for each in after.findings
        }

        assert after.measuring.reason is NoMeasuring.KNOWN
        assert pasted(written([after], "vllm", TextStyle())) == PRESENT
        assert "Take that out" in after.setting.text
