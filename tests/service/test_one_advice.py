"""One advice: action, setting and ``recommend`` have the same number of draft tokens."""

import json
import re

import aiohttp

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


async def test_the_action_the_setting_and_what_recommend_prints_have_one_number_of_draft_tokens():
    """test_same_story compares these of the API with the metrics, the log and the page."""
    async with moved_fleet(SERVERS, windows=["30s", "2m"]) as fleet, aiohttp.ClientSession() as client:
        await fleet.advance(150)
        async with client.get(f"{fleet.url}api/v1/snapshot") as answer:
            snapshot = await answer.read()
    engines = {engine["target"]: engine for engine in json.loads(snapshot)["engines"]}
    saved = {engine.target: engine for engine in parsed(snapshot).engines}
    for name, (action, tokens, text) in ADVICE.items():
        engine = engines[name]
        numbers = engine["recommended_tokens"], engine["setting"]["tokens"]
        assert (engine["recommendation"], *numbers) == (action, tokens, tokens), name
        assert engine["recommendation_text"].startswith(text), name
        assert engine["setting"]["text"].startswith(text), name
        (printed,) = json.loads(written([saved[name]], "json", TextStyle()))["engines"]
        assert printed["setting"]["tokens"] == tokens, name
        report = written([saved[name]], "text", TextStyle())
        assert text in re.sub(r"\s+", " ", report), name
        assert ("Keep drafting" in report) == (action == "keep"), name
        if name in {"ngram", "cheap"}:
            assert "To know it" not in report, "a drafter that does not work has nothing to measure"
