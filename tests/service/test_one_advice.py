"""One advice: metric, API, cell of the page and ``recommend`` have the same action and number of draft tokens."""

import json
import re

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from spec_decode_exporter.cli.recommend import written
from spec_decode_exporter.reports.saved_snapshot import parsed
from spec_decode_exporter.reports.text import TextStyle
from tests.fakes.moved_fleet import Server, moved_fleet

DEAD = {"mean": 0.02, "spread": 0.01}
EAGLE = {"method": "eagle3", "tokens": 3}
KNOWN = {"draft_cost_ratio": 0.05, "running_requests": 16}
CHEAP = {"loads": [{"running_requests": load, "draft_cost_ratio": 0.002} for load in (1, 64)]}
SERVERS = (
    # A cost without its load: beside more requests than four it may be higher.
    Server("unclear", told={"cost": {"draft_cost_ratio": 0.25}}),
    Server("costly", told={"cost": {"draft_cost_ratio": 1.0}}),
    # A drafter that is nearly dead, whatever it costs.
    Server("ngram", "ngram", {"acceptance": DEAD}, {"speculative": {"method": "ngram"}}),
    Server("cheap", changes={"acceptance": DEAD, "speculation": EAGLE}, told={"cost": CHEAP}),
    # Poor without a known cost: nothing says that another number or none is better.
    Server("poor", "ngram", {"acceptance": {"mean": 0.1}}),
    Server("good", told={"cost": KNOWN}),
)
ADVICE = {
    "unclear": ("measure_cost", None, "To know it: "),
    "costly": (
        "disable",
        0,
        "Switch speculation off, or configure the load of its cost (cost.running_requests)",
    ),
    "ngram": ("disable", 0, "Switch speculation off: it finds almost nothing to draft"),
    "cheap": ("disable", 0, "Switch speculation off: almost no draft token is accepted."),
    "poor": ("measure_cost", None, "To know it: "),
    "good": ("keep", 4, "Keep drafting 4 tokens at a time."),
}
"""Action, number of draft tokens and begin of the sentence, by target."""
_CELL = re.compile(r'data-label="K" class="number"><div>(.*?)</div>', re.DOTALL)


async def shown():
    """Return samples of /metrics, the text of the snapshot, and the page, all at one moment."""
    async with moved_fleet(SERVERS, windows=["30s", "2m"]) as fleet, aiohttp.ClientSession() as client:
        await fleet.advance(150)
        texts = []
        for path in ("metrics", "api/v1/snapshot", ""):
            async with client.get(f"{fleet.url}{path}") as answer:
                texts.append(await answer.text())
    metrics, snapshot, page = texts
    samples = [each for family in text_string_to_metric_families(metrics) for each in family.samples]
    return samples, snapshot, page


def cell(page, target):
    """Return the words of the cell with K of a target's engine."""
    (row,) = (
        row for row in re.findall(r'<tr class="engine".*?</tr>', page, re.DOTALL) if f">{target}<" in row
    )
    return re.sub(r"<[^>]*>|\s+", " ", _CELL.search(row)[1]).split()


async def test_all_outputs_of_an_engine_have_one_action_and_one_number_of_draft_tokens():
    samples, snapshot, page = await shown()
    engines = {engine["target"]: engine for engine in json.loads(snapshot)["engines"]}
    saved = {engine.target: engine for engine in parsed(snapshot.encode()).engines}
    for name, (action, tokens, text) in ADVICE.items():
        own = [each for each in samples if each.labels.get("target") == name]
        actions = [
            each.labels["action"] for each in own if each.name == "spec_decode_recommendation" and each.value
        ]
        gauge = [each.value for each in own if each.name == "spec_decode_recommended_tokens"]
        assert (actions, gauge) == ([action], [] if tokens is None else [tokens]), name
        engine = engines[name]
        numbers = engine["recommended_tokens"], engine["setting"]["tokens"]
        assert (engine["recommendation"], *numbers) == (action, tokens, tokens), name
        words = {None: [], 0: ["try", "off"]}.get(tokens, ["keep"])
        assert cell(page, name) == [str(engine["configured_tokens"]), *words], name
        assert engine["recommendation_text"].startswith(text), name
        assert engine["setting"]["text"].startswith(text), name
        (printed,) = json.loads(written([saved[name]], "json", TextStyle()))["engines"]
        assert printed["setting"]["tokens"] == tokens, name
        report = written([saved[name]], "text", TextStyle())
        assert text in re.sub(r"\s+", " ", report), name
        assert ("Keep drafting" in report) == (action == "keep"), name
        if name in {"ngram", "cheap"}:
            assert "To know it" not in report, "a drafter that does not work has nothing to measure"
