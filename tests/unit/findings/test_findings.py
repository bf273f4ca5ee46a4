"""Findings: each at its threshold, with its text."""

import re
from dataclasses import replace
from math import inf, isclose, sqrt

import pytest

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Assumptions, Drafting, FasterMethod, Knowledge
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Advice
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.comparison_settings import CostSettings
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.costs.baseline import BaselineSummary
from spec_decode_exporter.costs.cost import CostAtLoad, CostByLoad, CostSource
from spec_decode_exporter.costs.methods import Interval
from spec_decode_exporter.drops.sums import DropKind, DropStatus, LiveDrop
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.findings.finding import Severity
from spec_decode_exporter.findings.findings import NAMES, findings
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets, KvCache
from spec_decode_exporter.window.poll import Check, Counters
from tests.fakes.windows import window

BUSY = {"first_tokens": 55, "increments": [{"generation_tokens": 103}] * 30}
"""Requests of which eight run at a time, all the while: 6.875 one after the other."""
STEADY = [{"drafts": 25, "draft_tokens": 100, "generation_tokens": 78, "positions": (20, 15, 10, 5)}] * 40
"""Increments of 1000 drafts with the same acceptance throughout."""
LONG_DRAFTS = STEADY[0]
SHORT_DRAFTS = {"drafts": 25, "draft_tokens": 50, "generation_tokens": 63, "positions": (20, 15, 0, 0)}
"""Increments of drafts of four tokens, and of two."""
SCHEDULED = Speculation("draft_model", schedule=BatchSchedule((1, 8, 32), (4, 2, 0)))
NO_HITS = {"prefix_cache_queries": 10_000, "prefix_cache_hits": 0}
GAUGES = ("running", "waiting", "kv_cache_usage")


def flipping(times):
    """Return 40 increments, and the number of draft tokens changes ``times`` times."""
    pair = ({**LONG_DRAFTS, "decode_steps": 25}, {**SHORT_DRAFTS, "decode_steps": 25})
    return [pair[min(place, times) % 2] for place in range(40)]


def halves(more):
    """Return 1000 drafts of which the first half accept ``more`` tokens more, and the others fewer."""
    counts = [50 + more] * 20 + [50 - more] * 20
    return {
        "positions": (500,) * 4,
        "increments": [
            {"drafts": 25, "draft_tokens": 100, "generation_tokens": 78, "accepted_tokens": count}
            for count in counts
        ],
    }


def measured(token, load=8.0, low=None, high=None):
    """Return a measured cost of a draft token at one load; a step that drafts costs 0.05 more."""
    tokens = Interval(token if low is None else low, token, token if high is None else high)
    return {"measured": (CostByLoad((CostAtLoad(load, tokens),), CostSource.MEASURED, 0.05),)}


BY_LOAD = {
    "cost": CostSettings(
        loads=(
            {"running_requests": 4, "draft_cost_ratio": 0.1},
            {"running_requests": 12, "draft_cost_ratio": 0.9},
        )
    )
}
"""A cost of 0.5 at 8 running requests, where two accepted tokens of four just pay."""


def latency(which, p99, observations=1000):
    """A histogram with a median of 0.1 s: half of it below 0.1, the rest but two hundredths, up to p99."""
    half, most = observations // 2, observations * 98 // 100
    counts = (half, most, observations * 99 // 100, observations)
    return {"latencies": {which: Buckets((0.1, 0.2, p99, inf), counts)}}


def found(positions=(800, 600, 400, 200), drafts=1000, draft_tokens=None, accepted=None, **more):
    """Return the findings by name; with no arguments those of an engine that has none.

    1000 drafts of 4 tokens; rate 0.5, length 3.0, every step with a draft, nothing lost. The cost is measured
    unless one is configured, and there is no advice.
    """
    accepted = sum(positions) if accepted is None else accepted
    counted = drafts or 0
    draft_tokens = counted * len(positions) if draft_tokens is None else draft_tokens
    counters = {
        "decode_steps": counted,
        "generation_tokens": counted + accepted + 100,
        "first_tokens": 100,
        "preemptions": 0,
    }
    names = {*Counters._fields, "seconds", "length", "increments", "counts_at_end"} & more.keys()
    counters |= {name: more.pop(name) for name in names}
    usual = {"running": 8.0, "waiting": 0.0, "kv_cache_usage": 0.5}
    gauges = tuple(more.pop(name, usual[name]) for name in GAUGES)
    counters["increments"] = [
        {"gauges": (gauges[0] or 0.0, 0.0, 0.0), "accepted_tokens": sum(each.get("positions", ())), **each}
        for each in counters.get("increments", ())
    ]
    one = window(drafts, draft_tokens, accepted, positions=positions, gauges=gauges, **counters)
    broken, drops = frozenset(more.pop("broken", ())), more.pop("drops", DropStatus())
    latencies, advice = more.pop("latencies", {}), more.pop("advice", Advice())
    length = more.pop("reported_length", None)
    costs = more.pop("measured", () if "cost" in more else measured(0.1)["measured"])
    its = Assumptions(
        more.pop("speculation", Speculation()),
        more.pop("cost", None),
        more.pop("policy", Policy()),
        engine_kind=more.pop("engine_kind", ""),
        kv_cache=more.pop("kv_cache", None),
    )
    known = {"has_drafted": True, "wall": 1_790_000_000.0, "assumed": its, **more}
    evaluation = Evaluation(
        (one,),
        Knowledge(its.speculation, its.cost_model(costs), its.policy, **known),
        latencies,
        lambda each: (each.computed_decision._replace(advice=advice), each.setting_by(advice)),
    )
    return {finding.name: finding for finding in findings(evaluation, broken, drops, length)}


BASELINE = BaselineSummary(0.05, 0.85)
FEW_STEPS = {"decode_steps": 2001, "generation_tokens": 4101}  # more than twice as many steps as drafts
FLIPS = {"running": 9.0, "speculation": SCHEDULED}
ROOM = {"positions": (800, 600, 400, 301)}
FASTER = FasterMethod("x", "a", "mtp", Estimate(2.0, 1.8, 2.2, 0.1), Estimate(1.5, 1.3, 1.7, 0.1))
TYPICAL = {"measured": (), "speculation": Speculation("eagle3")}
DROP = LiveDrop(2.1, 1.4, 125.0)
ONE_PASS = {"speculation": Speculation("eagle3", drafts_in_parallel=True)}


def expecting(*positions, increments=STEADY, **more):
    return {"speculation": Speculation(expected_positions=positions), "increments": increments, **more}


OLD_SGLANG = {
    "drafts": None,
    "positions": (),
    "decode_steps": None,
    "engine_kind": "sglang",
    "reported_length": 1.48,
}
NO_DRAFTS = {"drafts": None, "positions": ()}
NO_NUMBER = {**NO_DRAFTS, "draft_tokens": 4000, "accepted": 2000}
UNCOUNTED = {**NO_DRAFTS, "decode_steps": 1000, "generation_tokens": 1800, "drafting": Drafting.UNCOUNTED}


SLOW_STEPS = {
    "kv_cache": KvCache(100_000, "fp8_e4m3"),
    "positions": (700, 600, 400, 300),
    **measured(0.6),
}
"""An engine that hardly accepts too little, with a cost at which speculation is slower."""
PREFILLS = {"drafts": 0, "positions": (0,) * 3}
EDGES = {
    "sudden_drop": ({"drops": DropStatus(live={DropKind.SUDDEN: DROP})}, {"drops": DropStatus()}),
    "drafting_drop": ({"drops": DropStatus(live={DropKind.DRAFTING: DROP})}, {"drops": DropStatus()}),
    "counts_no_drafts": (OLD_SGLANG, {**OLD_SGLANG, "engine_kind": "tensorrt_llm"}),
    "drafts_not_counted": (NO_NUMBER, {**NO_NUMBER, "drafts": 0}),
    "decodes_nothing": ({**PREFILLS, "first_tokens": 10, "generation_tokens": 10}, {**PREFILLS, "first_tokens": 9, "generation_tokens": 9}),
    "stalled": ({"drafts": 0, "positions": (0,) * 4, "decode_steps": 101}, {"drafts": 0, "positions": (0,) * 4, "decode_steps": 100}),
    "drafter_dead": ({"positions": (49, 0)}, {"positions": (50, 0)}),
    "repetition": ({"positions": (980, 300)}, {"positions": (979, 300)}),
    "cliff": ({"positions": (800, 319)}, {"positions": (800, 320)}),
    "below_expectation": (expecting(0.951), expecting(0.949)),
    "above_crossover": ({**BY_LOAD, "running": 8.1}, {**BY_LOAD, "running": 8.0}),
    "unclear_cost": (measured(0.3, low=0.05, high=0.8), measured(0.3)),
    "kv_pressure": ({"kv_cache_usage": 0.901, "preemptions": 1}, {"kv_cache_usage": 0.9, "preemptions": 1}),
    "prefix_cache_lost": (NO_HITS, {**NO_HITS, "prefix_cache_queries": 9_999}),
    "token_time_tail": (latency(Latency.TIME_PER_OUTPUT_TOKEN, 0.501), latency(Latency.TIME_PER_OUTPUT_TOKEN, 0.5)),
    "decode_step_tail": (latency(Latency.DECODE_STEP, 0.501), latency(Latency.DECODE_STEP, 0.5)),
    "schedule_flips": ({**FLIPS, "increments": flipping(10)}, {**FLIPS, "increments": flipping(9)}),
    "drafting_paused": ({**FEW_STEPS, "speculation": Speculation("draft_model")}, {"decode_steps": 2000, "generation_tokens": 4100, "speculation": Speculation("draft_model")}),
    "low_coverage": (FEW_STEPS, {"decode_steps": 2000, "generation_tokens": 4100}),
    "lossy_rejection": ({"speculation": Speculation(rejection_method="fly")}, {"speculation": Speculation(rejection_method="block")}),
    "slow_steps_with_fp8": (SLOW_STEPS, {**SLOW_STEPS, "kv_cache": KvCache(100_000, "auto")}),
    "trimmed_tokens": ({"generation_tokens": 2949}, {"generation_tokens": 2950}),
    "faster_method": ({"faster_method": FASTER}, {}),
    "another_depth": ({**measured(0.3), "advice": Advice(tokens=2)}, {**measured(0.1), "advice": Advice(tokens=3)}),
    "low_first_position": ({"positions": (699, 600, 400, 200)}, {"positions": (700, 600, 400, 200)}),
    "wasted_last_position": ({"positions": (800, 600, 99)}, {"positions": (800, 600, 100)}),
    "room_for_longer_draft": ({"positions": (800, 301), **TYPICAL}, {"positions": (800, 300), **TYPICAL}),
    "short_parallel_draft": ({"positions": (800,) * 6, **ONE_PASS, "advice": Advice(tokens=7)}, {"positions": (800,) * 7, **ONE_PASS, "advice": Advice(tokens=8)}),
    "cost_without_load": ({"cost": CostSettings(draft_cost_ratio=0.1), "running": 8.1}, {"cost": CostSettings(draft_cost_ratio=0.1), "running": 8.0}),
    "cost_out_of_range": ({**measured(0.1, 16.0), "running": 7.9}, {**measured(0.1, 16.0), "running": 8.0}),
    "few_drafts": ({"drafts": 99}, {"drafts": 100}),
    "few_requests": (BUSY, {**BUSY, "first_tokens": 56}),
    "wide_bounds": (halves(20), halves(5)),
    **{f"broken_{check}": ({"broken": {check}}, {"broken": set()}) for check in Check},
}  # fmt: skip
"""Engines on both sides of the threshold of each finding."""
IN_OTHER_WORDS = {"began", "age", "requests"}
"""Values that a text has as a time of day, in minutes, or in effective requests."""


@pytest.mark.parametrize("name", NAMES)
def test_every_finding_holds_on_one_side_of_its_threshold_and_its_text_has_a_remedy(name):
    beyond, at = EDGES[name]
    assert name not in found(**at)
    finding = found(**beyond)[name]
    text = finding.text
    assert text.count(". ") + text.count(": ") + text.count("; ") >= 1
    assert text.endswith(".")
    assert "{" not in text
    numbers = re.findall(r"(\d+(?:\.\d+)?(?:e[+-]\d+)?)( %)?", text.replace(",", ""))
    written = [float(number) / (100 if unit else 1) for number, unit in numbers]
    for value in (value for key, value in finding.values.items() if key not in IN_OTHER_WORDS):
        assert any(isclose(value, number, rel_tol=0.01, abs_tol=0.051) for number in written), finding


def test_missing_drafts_have_a_text_for_each_kind_of_absence():
    uncounted = found(**UNCOUNTED)["drafts_not_counted"]
    assert uncounted.values == {"tokens": 1.7}
    assert uncounted.text.startswith("A decode step yields 1.70 tokens, so the engine drafts, but its page ")
    unknown = found(**NO_DRAFTS, drafting=Drafting.UNKNOWN, engine_kind="vllm")["drafts_not_counted"]
    assert unknown.text.startswith("The page does not say whether the engine speculates: ")
    assert "add `vllm:spec_decode_.*`" in unknown.text


def test_faults_come_first_and_those_of_the_counters_before_them():
    assert EDGES.keys() == set(NAMES)
    severities = [found(**EDGES[name][0])[name].severity for name in NAMES]
    assert severities == sorted(severities, key=[Severity.WARNING, Severity.INFO].index)
    both = {**EDGES["sudden_drop"][0], **EDGES["kv_pressure"][0], "positions": (800, 600, 400, 99)}
    names = ["broken_one_server", "sudden_drop", "cliff", "kv_pressure", "wasted_last_position"]
    assert [*found(**both, broken={Check.ONE_SERVER})] == names


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        ("sudden_drop", {"baseline": 2.1, "length": 1.4, "began": 1_789_999_875.0, "age": 125.0}, "Acceptance dropped at 14:11:15 UTC, 2 min 5 s ago: from 2.10 tokens a draft to "),
        ("low_first_position", {"acceptance": 0.699, "threshold": 0.7}, "The first draft token is accepted in 69.9 % of the drafts, below 70.0 %: "),
        ("cliff", {"position": 1, "acceptance": 319 / 800, "position_before": 0, "acceptance_before": 0.8}, "Of the drafts that reach position 1, 39.9 % are accepted there, compared with 80.0 % at position 0: "),
        ("below_expectation", {"position": 0, "acceptance": 0.8, "upper": 0.8 + 4.3027 * sqrt(0.16 / 1000), "expected": 0.951}, "Of the drafts that reach position 0, 80.0 % are accepted there, at most 85.4 %. "),
        ("token_time_tail", {"p50": 0.1, "p99": 0.501, "ratio": 5.01}, "One request in a hundred waits 0.501 s or longer for a token, 5.0 times the median of 0.1 s. "),
        ("another_depth", {"tokens": 4, "recommended_tokens": 2, "speedup": 2.4 / 1.65, "present_speedup": 3.0 / 2.25}, "2 draft tokens instead of 4 should make decoding 1.45 times as fast as without speculation, instead of 1.33 times"),
        ("counts_no_drafts", {"length": 1.48}, "This SGLang counts no drafts, so there is no verdict. Update it to a version from May 2026 or later, which does. The acceptance length that it reports is 1.48."),
        ("drafts_not_counted", {}, "The page lacks the number of drafts, so there is no verdict. Update the server."),
        ("slow_steps_with_fp8", {"acceptance": 0.7, "steps": 3.45}, "The KV cache is FP8, and speculation does not pay though its first position is accepted in 70.0 % of the drafts: by measured step times a step with drafts is too long, 3.45 decode steps. "),
        ("decodes_nothing", {"requests": 10}, "It decodes nothing: 10 requests got their first token here, none a second one. It is a prefill server: "),
        ("room_for_longer_draft", {"acceptance": 0.301, "threshold": 0.3, "tokens": 2}, "With 2 draft tokens the last one is accepted in 30.1 % of the drafts, "),
        ("few_requests", {"requests": 6.875, "counted": 6.875 / 1.4, "threshold": 5, "least": 1.4}, "Not enough traffic: 4.9 effective requests so far, 5 needed for bounds and advice, and 1.4 for a verdict."),
    ],
)  # fmt: skip
def test_the_text_has_the_numbers_of_the_condition(name, values, text):
    finding = found(**EDGES[name][0])[name]
    assert finding.values == pytest.approx(values, rel=1e-4)
    assert finding.text.startswith(text)


VARIED = [{**STEADY[0], "positions": (24, 15, 10, 5)}] * 20 + [
    {**STEADY[0], "positions": (14, 13, 10, 5)}
] * 20
EVEN = [{**STEADY[0], "positions": (19, 14, 10, 5)}] * 40
"""Halves that accept 0.96 and 0.56 of the first tokens, and 0.76 throughout."""
UNEVEN = {"increments": [{**STEADY[0], "draft_tokens": 90}] * 40, "draft_tokens": 3600}
"""Drafts of varying lengths."""
CONDITIONS = [
    ("a window that is full", "repetition", {"positions": (990, 300), "length": 300.0, "seconds": 255.0}, {"positions": (990, 300), "length": 300.0, "seconds": 254.0}),
    ("no hits at all", "prefix_cache_lost", NO_HITS, {**NO_HITS, "prefix_cache_hits": 1}),
    ("20 requests", "prefix_cache_lost", {**NO_HITS, "first_tokens": 20}, {**NO_HITS, "first_tokens": 19}),
    ("a baseline with hits", "prefix_cache_lost", {**NO_HITS, "baseline": BASELINE}, {**NO_HITS, "baseline": replace(BASELINE, prefix_hit_ratio=0.009)}),
    ("enough drafts that reach the position", "cliff", {"positions": (200, 100, 5)}, {"positions": (198, 99, 5)}),
    ("no smooth decay", "cliff", {"positions": (800, 600, 0, 0)}, {"positions": (740, 540, 410, 300, 220, 160)}),
    ("drafts that did not end before", "cliff", {"positions": (900, 800, 300, 200)}, {"positions": (900, 800, 300, 200), "draft_tokens": 3200}),
    ("a position that many drafts have", "wasted_last_position", {"positions": (800, 600, 400, 9), "draft_tokens": 3100}, {"positions": (800, 600, 400, 10), "draft_tokens": 3100}),
    ("a cost that allows more tokens", "room_for_longer_draft", {**ROOM, **measured(0.001)}, {**ROOM, **measured(0.1)}),
    ("a cost at which speculation pays", "room_for_longer_draft", {**ROOM, **TYPICAL}, {"positions": (60, 50, 40, 30), **TYPICAL}),
    ("another advice than none", "another_depth", {**measured(0.9), "advice": Advice(tokens=1)}, {**measured(0.9), "advice": Advice(tokens=0)}),
    ("no stated load", "cost_without_load", {"cost": CostSettings(draft_cost_ratio=0.1), "running": 80.0}, {"cost": CostSettings(draft_cost_ratio=0.1, running_requests=4), "running": 80.0}),
    ("a stated load", "cost_out_of_range", {"cost": CostSettings(draft_cost_ratio=0.1, running_requests=4), "running": 80.0}, {"cost": CostSettings(draft_cost_ratio=0.1), "running": 80.0}),
    ("a cost of the server itself", "cost_out_of_range", {**measured(0.1), "running": 1000.0}, {**TYPICAL, "running": 1000.0}),
    ("20 polls", "schedule_flips", {**FLIPS, "increments": flipping(20)}, {**FLIPS, "increments": flipping(20)[:19]}),
    ("a change of K, if only within polls", "schedule_flips", {**FLIPS, "increments": [{**LONG_DRAFTS, "drafts": 12, "draft_tokens": 48, "decode_steps": 25}] * 40}, {**FLIPS, "increments": flipping(0)}),
    ("a schedule", "schedule_flips", {**FLIPS, "increments": flipping(20)}, {"running": 9.0, "increments": flipping(20), "speculation": Speculation("draft_model")}),
    ("two ranges", "schedule_flips", {**FLIPS, "increments": flipping(20)}, {"running": 9.0, "increments": flipping(20), "speculation": Speculation("draft_model", schedule=BatchSchedule((1,), (4,)))}),
    ("a method that drafts in every step", "schedule_flips", {**FLIPS, "increments": flipping(20)}, {"running": 9.0, "increments": flipping(20), "speculation": replace(SCHEDULED, method="ngram")}),
    ("a schedule without pauses", "low_coverage", {**FEW_STEPS, "speculation": Speculation("ngram", schedule=BatchSchedule((1, 32), (4, 1)))}, {**FEW_STEPS, "speculation": Speculation("ngram", schedule=BatchSchedule((1, 32), (4, 0)))}),
    ("known first tokens", "few_requests", BUSY, {**BUSY, "first_tokens": None}),
    # As many as eight at a time in half of the window are sixteen then.
    ("busy time", "few_requests", {"first_tokens": 100, "increments": [{"generation_tokens": 206 * (second % 2)} for second in range(30)]}, {**BUSY, "first_tokens": 100}),
    ("more than the bounds allow", "trimmed_tokens", {"generation_tokens": 3755, "first_tokens": 900, "increments": STEADY}, {"generation_tokens": 3755, "first_tokens": 900, "increments": VARIED}),
    ("a difference beyond chance", "below_expectation", expecting(0.92, positions=(760, 560, 400, 200), increments=EVEN), expecting(0.92, positions=(760, 560, 400, 200), increments=VARIED)),
    ("enough requests", "below_expectation", expecting(0.99), expecting(0.99, first_tokens=50, generation_tokens=3050)),
    ("a position that every draft has", "below_expectation", expecting(1.0, **UNEVEN), expecting(0.8, 1.0, 1.0, 1.0, **UNEVEN)),
    ("a position weak by itself", "below_expectation", expecting(0.8, 0.95), expecting(0.4, 0.8, 0.75, 0.66, positions=(400, 320, 240, 160), increments=[{**STEADY[0], "positions": (10, 8, 6, 4)}] * 40)),
    ("a position that is drafted", "below_expectation", expecting(0.8, 0.75, 0.66, 0.7), expecting(0.8, 0.75, 0.66, 0.5, 1.0, 1.0)),
    ("a hundred requests", "token_time_tail", latency(Latency.TIME_PER_OUTPUT_TOKEN, 1.0, 100), latency(Latency.TIME_PER_OUTPUT_TOKEN, 1.0, 99)),
    ("a median above 0", "decode_step_tail", latency(Latency.DECODE_STEP, 1.0), {"latencies": {Latency.DECODE_STEP: Buckets((0.0, 1.0, inf), (900, 1000, 1000))}}),
    ("a known number of tokens a step", "drafts_not_counted", UNCOUNTED, {**UNCOUNTED, "decode_steps": None}),
    ("more tokens than steps", "drafts_not_counted", UNCOUNTED, {**UNCOUNTED, "drafting": Drafting.OFF}),
    ("draft tokens", "drafts_not_counted", NO_NUMBER, {**NO_NUMBER, "draft_tokens": 0, "accepted": 0}),
    ("accepted tokens", "drafts_not_counted", {**NO_NUMBER, "draft_tokens": None}, {**NO_NUMBER, "draft_tokens": None, "accepted": 0}),
    ("a page that does not tell", "drafts_not_counted", {**NO_DRAFTS, "drafting": Drafting.UNKNOWN}, {**NO_DRAFTS, "drafting": Drafting.UNDECIDED}),
    ("speculation that does not pay", "slow_steps_with_fp8", SLOW_STEPS, {**SLOW_STEPS, **measured(0.1)}),
    ("a measured cost", "slow_steps_with_fp8", SLOW_STEPS, {**SLOW_STEPS, "measured": (), "cost": CostSettings(draft_cost_ratio=0.9, running_requests=8)}),
    ("an acceptance that is not the cause", "slow_steps_with_fp8", SLOW_STEPS, {**SLOW_STEPS, "positions": (699, 600, 400, 300)}),
    ("no draft", "decodes_nothing", PREFILLS, {**PREFILLS, "drafts": 5, "decode_steps": 0}),
    ("no decode step", "decodes_nothing", PREFILLS, {**PREFILLS, "decode_steps": 1}),
    ("no decoded token where steps are unknown", "decodes_nothing", {**PREFILLS, "decode_steps": None}, {**PREFILLS, "decode_steps": None, "generation_tokens": 101}),
    ("known first tokens", "decodes_nothing", PREFILLS, {**PREFILLS, "first_tokens": None}),
    ("reported length", "counts_no_drafts", OLD_SGLANG, {**OLD_SGLANG, "reported_length": 0.0}),
    ("no count of drafts", "counts_no_drafts", OLD_SGLANG, {**OLD_SGLANG, "drafts": 0}),
    ("preemptions", "kv_pressure", {"kv_cache_usage": 1.0, "preemptions": 1}, {"kv_cache_usage": 1.0}),
    ("known decode_steps", "low_coverage", FEW_STEPS, {**FEW_STEPS, "decode_steps": None}),
    *((f"known {name}", "trimmed_tokens", EDGES["trimmed_tokens"][0], {**EDGES["trimmed_tokens"][0], name: None}) for name in ("decode_steps", "generation_tokens", "first_tokens")),
]  # fmt: skip
"""What a finding needs beside its threshold: with it and without it."""


@pytest.mark.parametrize(
    ("name", "enough", "without"),
    [row[1:] for row in CONDITIONS],
    ids=[f"{name} needs {what}" for what, name, *_ in CONDITIONS],
)
def test_a_finding_needs(name, enough, without):
    assert name in found(**enough)
    assert name not in found(**without)


NO_SPECULATION = {"drafts": 0, "positions": (), "drafting": Drafting.OFF}


ALONE = {
    "an ordinary engine": ({}, set()),
    "no draft": ({"drafts": 0, "positions": (0,), "decode_steps": 100}, set()),
    "a single draft": ({"drafts": 1, "positions": (1,)}, {"few_drafts"}),
    "no speculation": ({**NO_SPECULATION, "decode_steps": 100}, set()),
    "a prefill server": (NO_SPECULATION, {"decodes_nothing"}),
    "no positions": ({"positions": (), "draft_tokens": 4000, "accepted": 2000}, set()),
    "nothing accepted": ({"positions": (0,) * 4}, {"drafter_dead"}),
    "almost nothing accepted": ({"positions": (9, 0, 0, 0)}, {"drafter_dead", "low_first_position", "wasted_last_position"}),
    "an unknown load": ({"running": None, **BY_LOAD}, {"unclear_cost"}),
    **{f"{method} pauses": ({**FEW_STEPS, "speculation": Speculation(method)}, {"drafting_paused"}) for method in ("eagle3", "draft_model", "mtp", "medusa")},
    **{f"{method} searches": ({**FEW_STEPS, "speculation": Speculation(method)}, {"low_coverage"}) for method in ("ngram", "[ngram]", "ngram_gpu", "suffix", "")},
}  # fmt: skip


@pytest.mark.parametrize(("more", "names"), ALONE.values(), ids=ALONE)
def test_an_engine_has_these_findings_alone(more, names):
    assert found(**more).keys() == names


def test_without_windows_or_counters_there_are_no_findings():
    assert findings(Evaluation((), Knowledge()), frozenset(Check), DropStatus()) == ()
    unknown = Evaluation((window(),), Knowledge(drafting=Drafting.OFF))
    assert findings(unknown, frozenset(), DropStatus()) == ()
    unknown_accepted = Evaluation((window(1000, 4000, positions=(0,) * 4),), Knowledge())
    (lacking,) = findings(unknown_accepted, frozenset(), DropStatus())
    assert lacking.text.startswith("The page lacks the number of accepted tokens, so there is no verdict. ")


NEED_NO_DRAFTS = {
    *(f"broken_{check}" for check in Check),
    *(f"{kind}_drop" for kind in DropKind),
    *("stalled", "kv_pressure", "token_time_tail", "decode_step_tail", "few_drafts"),
    *("counts_no_drafts", "drafts_not_counted", "decodes_nothing"),
}
OF_PARTIAL_WINDOWS = {
    name
    for name in NAMES
    if name.startswith(("broken_", "counts_no", "decodes_no", "drafts_")) or name.endswith("_drop")
}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NEED_NO_DRAFTS])
def test_findings_about_drafts_need_enough_of_them(name):
    beyond = EDGES[name][0]
    least = 100 if name == "cliff" else 1000  # a cliff takes as many that got there
    assert name in found(**beyond, policy=Policy(min_drafts=least))
    assert name not in found(**beyond, policy=Policy(min_drafts=1001))


OF_VERIFIED_DRAFTS = (
    *("repetition", "cliff", "below_expectation", "above_crossover"),
    *("another_depth", "low_first_position", "wasted_last_position"),
    "room_for_longer_draft",
)


@pytest.mark.parametrize("name", OF_VERIFIED_DRAFTS)
def test_no_finding_reads_positions_or_draft_tokens_that_an_engine_may_not_have_verified(name):
    beyond = EDGES[name][0]
    speculation = replace(beyond.get("speculation", Speculation()), is_adaptive=True)
    assert name not in found(**{**beyond, "speculation": speculation})


@pytest.mark.parametrize("name", NAMES)
def test_only_drops_and_broken_counters_are_findings_of_a_partial_window(name):
    partial = found(**EDGES[name][0], length=300.0, seconds=14.0)
    assert (name in partial) is (name in OF_PARTIAL_WINDOWS)
    assert partial.keys() <= OF_PARTIAL_WINDOWS


def test_a_schedule_that_flips_is_named_with_its_nearest_boundary():
    finding = found(**FLIPS, increments=flipping(20))["schedule_flips"]
    values = {"changes": 20, "polls": 40, "running": 9.0, "boundary": 8, "below": 4, "above": 2}
    assert finding.values == pytest.approx(values)
    assert "from 8 on it drafts 2 instead of 4" in finding.text


class TestChangingK:
    """A schedule drafts four tokens in half of the increments, and two in the others."""

    def changing(self, long=(20, 15, 10, 5), **more):
        increments = [{**LONG_DRAFTS, "positions": long}, SHORT_DRAFTS] * 20
        totals = {name: sum(one[name] for one in increments) for name in ("drafts", "draft_tokens")}
        positions = tuple(map(sum, zip(*(one["positions"] for one in increments), strict=True)))
        return found(positions=positions, increments=increments, **totals, **more)

    @pytest.mark.parametrize(
        ("long", "name", "values"),
        [
            ((20, 18, 15, 10), "room_for_longer_draft", {"acceptance": 0.4}),
            ((20, 15, 8, 2), "wasted_last_position", {"acceptance": 0.08}),
            ((20, 15, 4, 3), "cliff", {"position": 2, "acceptance": 4 / 15, "position_before": 1, "acceptance_before": 0.75}),
        ],
    )  # fmt: skip
    def test_a_position_is_evaluated_by_the_drafts_that_had_it(self, long, name, values):
        found_values = self.changing(long, **TYPICAL)[name].values
        assert {key: found_values[key] for key in values} == pytest.approx(values)

    def test_drafts_that_lack_a_position_make_no_cliff_and_waste_nothing(self):
        assert self.changing() == {}


def test_one_draft_token_is_written_as_one():
    one = found(positions=(800,), accepted=800)
    assert one["room_for_longer_draft"].text.startswith("With 1 draft token the last one is accepted")


def test_a_fixed_cost_that_takes_the_whole_gain_leaves_no_negative_break_even():
    cost = CostByLoad((CostAtLoad(8.0, Interval(0.05, 0.9, 1.0)),), CostSource.MEASURED, step_tokens=3.0)
    assert found(measured=(cost,))["unclear_cost"].values["break_even"] == 0
