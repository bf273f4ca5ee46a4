"""Findings: each at its threshold, with its text."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf, isclose, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.analysis.cost import CostSource, Curve, Point
from spec_decode_exporter.analysis.end_to_end import RequestBaseline
from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Assumptions, FasterMethod, Knowledge
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.typical_costs import Range
from spec_decode_exporter.analysis.verdict import Advice
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.drops.sums import DropKind, DropStatus, LiveDrop
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.findings.finding import Severity
from spec_decode_exporter.findings.findings import NAMES, findings
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
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
    tokens = Range(token if low is None else low, token, token if high is None else high)
    return {"measured": (Curve((Point(load, tokens),), CostSource.MEASURED, 0.05),)}


def configured(**settings):
    return {"measured": (), "cost": CostSettings(**settings)}


def recommended(tokens):
    return {"advice": Advice(tokens=tokens)}


BY_LOAD = configured(
    loads=(
        {"running_requests": 4, "draft_cost_ratio": 0.1},
        {"running_requests": 12, "draft_cost_ratio": 0.9},
    )
)
"""A cost of 0.5 at 8 running requests, where two accepted tokens of four just pay."""


def tail(p99, observations=1000):
    """A histogram with a median of 0.1 s: half of it below 0.1, the rest but two hundredths, up to p99."""
    half, most = observations // 2, observations * 98 // 100
    return Buckets((0.1, 0.2, p99, inf), (half, most, observations * 99 // 100, observations))


def found(positions=(800, 600, 400, 200), drafts=1000, draft_tokens=None, accepted=None, **more):
    """Return the findings by name; with no arguments those of an engine that has none.

    1000 drafts of 4 tokens; rate 0.5, length 3.0, every step with a draft, nothing lost. The cost is measured,
    and there is no advice.
    """
    accepted = sum(positions) if accepted is None else accepted
    draft_tokens = drafts * len(positions) if draft_tokens is None else draft_tokens
    counters = {
        "decode_steps": drafts,
        "generation_tokens": drafts + accepted + 100,
        "first_tokens": 100,
        "preemptions": 0,
    }
    names = {*Counters._fields, "seconds", "length", "increments"} & more.keys()
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
    costs = more.pop("measured", measured(0.1)["measured"])
    its = Assumptions(
        more.pop("speculation", Speculation()), more.pop("cost", None), more.pop("policy", Policy())
    )
    known = {"has_drafted": True, "wall": 1_790_000_000.0, **more}
    evaluation = Evaluation(
        (one,), Knowledge(its.speculation, its.cost_model(costs), its.policy, **known), latencies
    )
    evaluation.shown = evaluation.own._replace(advice=advice)
    return {finding.name: finding for finding in findings(evaluation, broken, drops)}


def test_an_ordinary_engine_has_no_findings():
    assert found() == {}


def test_an_engine_that_is_gone_has_no_findings():
    assert findings(Evaluation((), Knowledge()), frozenset(Check), DropStatus()) == ()


EDGES = {
    **{
        f"{kind}_drop": (
            {"drops": DropStatus(live={kind: LiveDrop(2.1, 1.4, 125.0)})},
            {"drops": DropStatus()},
        )
        for kind in (DropKind.SUDDEN, DropKind.DRAFTING)
    },
    "slow_drop": (
        {"drops": DropStatus(4.1, 0.1, 7.0, {DropKind.SLOW: True})},
        {"drops": DropStatus(4.1, 0.1, 7.0, {DropKind.SLOW: False})},
    ),
    "stalled": (
        {"drafts": 0, "positions": (0,) * 4, "decode_steps": 101},
        {"drafts": 0, "positions": (0,) * 4, "decode_steps": 100},
    ),
    "drafter_dead": ({"positions": (49, 0)}, {"positions": (50, 0)}),
    "repetition": ({"positions": (980, 300)}, {"positions": (979, 300)}),
    "cliff": ({"positions": (800, 319)}, {"positions": (800, 320)}),
    "below_expectation": (
        {"speculation": Speculation(expected_positions=(0.951,)), "increments": STEADY},
        {"speculation": Speculation(expected_positions=(0.949,)), "increments": STEADY},
    ),
    "above_crossover": ({**BY_LOAD, "running": 8.1}, {**BY_LOAD, "running": 8.0}),
    "no_depth_pays": (
        {**measured(0.9), **recommended(0)},
        {**measured(0.9, low=0.1), **recommended(0)},
    ),
    "unclear_cost": (measured(0.3, low=0.05, high=0.8), measured(0.3)),
    "unknown_cost": ({"measured": ()}, {"measured": (), "speculation": Speculation("eagle3")}),
    "kv_pressure": (
        {"kv_cache_usage": 0.901, "preemptions": 1},
        {"kv_cache_usage": 0.9, "preemptions": 1},
    ),
    "prefix_cache_lost": (NO_HITS, {**NO_HITS, "prefix_cache_queries": 9_999}),
    "token_time_tail": (
        {"latencies": {Latency.TIME_PER_OUTPUT_TOKEN: tail(0.501)}},
        {"latencies": {Latency.TIME_PER_OUTPUT_TOKEN: tail(0.5)}},
    ),
    "decode_step_tail": (
        {"latencies": {Latency.DECODE_STEP: tail(0.501)}},
        {"latencies": {Latency.DECODE_STEP: tail(0.5)}},
    ),
    "schedule_flips": (
        {"increments": flipping(10), "running": 9.0, "speculation": SCHEDULED},
        {"increments": flipping(9), "running": 9.0, "speculation": SCHEDULED},
    ),
    "drafting_paused": (
        {"decode_steps": 2001, "generation_tokens": 4101, "speculation": Speculation("draft_model")},
        {"decode_steps": 2000, "generation_tokens": 4100, "speculation": Speculation("draft_model")},
    ),
    "low_coverage": (
        {"decode_steps": 2001, "generation_tokens": 4101},
        {"decode_steps": 2000, "generation_tokens": 4100},
    ),
    "lossy_rejection": (
        {"speculation": Speculation(rejection_method="fly")},
        {"speculation": Speculation(rejection_method="block")},
    ),
    "trimmed_tokens": ({"generation_tokens": 2949}, {"generation_tokens": 2950}),
    "faster_method": (
        {
            "faster_method": FasterMethod(
                "x", "a", "mtp", Estimate(2.0, 1.8, 2.2, 0.1), Estimate(1.5, 1.3, 1.7, 0.1)
            )
        },
        {},
    ),
    "another_depth": ({**measured(0.3), **recommended(2)}, {**measured(0.1), **recommended(3)}),
    "low_first_position": ({"positions": (699, 600, 400, 200)}, {"positions": (700, 600, 400, 200)}),
    "high_first_position": ({"positions": (901, 500, 250)}, {"positions": (900, 500, 250)}),
    "wasted_last_position": ({"positions": (800, 600, 99)}, {"positions": (800, 600, 100)}),
    "room_for_longer_draft": ({"positions": (800, 301)}, {"positions": (800, 300)}),
    "low_rate": ({"accepted": 1599}, {"accepted": 1600}),
    "high_rate": ({"accepted": 2401}, {"accepted": 2400}),
    "typical_cost": ({"measured": (), "speculation": Speculation("eagle3")}, {}),
    "cost_without_load": (
        {**configured(draft_cost_ratio=0.1), "running": 8.1},
        {**configured(draft_cost_ratio=0.1), "running": 8.0},
    ),
    "cost_out_of_range": ({**measured(0.1, 16.0), "running": 7.9}, {**measured(0.1, 16.0), "running": 8.0}),
    "few_drafts": ({"drafts": 99}, {"drafts": 100}),
    "few_requests": (BUSY, {**BUSY, "first_tokens": 56}),
    "wide_bounds": (halves(20), halves(5)),
    **{f"broken_{check}": ({"broken": {check}}, {"broken": set()}) for check in Check},
}


@pytest.mark.parametrize("name", NAMES)
def test_every_finding_holds_on_one_side_of_its_threshold(name):
    beyond, at = EDGES[name]
    assert name in found(**beyond)
    assert name not in found(**at)


def test_faults_come_first_and_those_of_the_counters_before_them():
    assert [*EDGES.keys() - set(NAMES)] == []
    assert NAMES[: len(Check)] == tuple(f"broken_{check}" for check in Check)
    severities = [found(**EDGES[name][0])[name].severity for name in NAMES]
    assert severities == sorted(severities, key=[Severity.WARNING, Severity.INFO].index)
    both = {**EDGES["sudden_drop"][0], **EDGES["kv_pressure"][0], "positions": (800, 600, 400, 99)}
    assert [*found(**both, broken={Check.ONE_SERVER})] == [
        "broken_one_server",
        "sudden_drop",
        "cliff",
        "kv_pressure",
        "wasted_last_position",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_text_has_its_numbers_and_a_remedy(name):
    text = found(**EDGES[name][0])[name].text
    assert text.count(". ") + text.count(": ") + text.count("; ") >= 1
    assert text.endswith(".")
    assert "{" not in text


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        (
            "sudden_drop",
            {"baseline": 2.1, "length": 1.4, "began": 1_789_999_875.0, "age": 125.0},
            "Acceptance dropped at 14:11:15 UTC, 2 min 5 s ago: the acceptance length was 2.10 tokens, and ",
        ),
        (
            "drafting_drop",
            {"baseline": 2.1, "length": 1.4, "began": 1_789_999_875.0, "age": 125.0},
            "Since 14:11:15 UTC, 2 min 5 s ago, fewer decode steps have a draft: a step gave 2.10 tokens, ",
        ),
        (
            "low_first_position",
            {"acceptance": 0.699, "threshold": 0.7},
            "Position 0 is accepted in 0.699 of the drafts, less than 0.7: ",
        ),
        (
            "cliff",
            {"position": 1, "acceptance": 319 / 800, "position_before": 0, "acceptance_before": 0.8},
            "Of the drafts that reach position 1, 0.399 are accepted there, compared with 0.800 at position 0: ",
        ),
        (
            "below_expectation",
            {"position": 0, "acceptance": 0.8, "upper": 0.8 + 4.3027 * sqrt(0.16 / 1000), "expected": 0.951},
            "Of the drafts that reach position 0, 0.800 are accepted there, at most 0.854. ",
        ),
        (
            "low_coverage",
            {"coverage": 1000 / 2001, "threshold": 0.5, "length": 3.0, "effective_tokens": 4001 / 2001},
            "0.500 of the decode steps had a draft, less than 0.5. The acceptance length of 3.00 covers ",
        ),
        (
            "kv_pressure",
            {"usage": 0.901, "threshold": 0.9, "preemptions": 1, "seconds": 30.0},
            "0.901 of the KV cache is in use, more than 0.9, and 1 requests were preempted in 30 s. ",
        ),
        (
            "prefix_cache_lost",
            {"requests": 100, "queries": 10_000, "seconds": 30.0},
            "100 requests looked up 10000 prompt tokens in the prefix cache in 30 s, and found none. ",
        ),
        (
            "token_time_tail",
            {"p50": 0.1, "p99": 0.501, "ratio": 5.01},
            "One request in a hundred waits 0.501 s or longer for a token, 5.0 times the median of 0.1 s. ",
        ),
        (
            "another_depth",
            {"tokens": 4, "recommended_tokens": 2, "speedup": 2.4 / 1.65, "present_speedup": 3.0 / 2.25},
            "2 draft tokens instead of 4 should make decoding 1.45 times as fast as without speculation, ",
        ),
        (
            "faster_method",
            {"speedup": 2.0, "speedup_lower": 1.8, "own_speedup": 1.5, "own_speedup_upper": 1.7},
            "Another arm of the experiment serves this model by another method 2.00 times as fast as the ",
        ),
        (
            "trimmed_tokens",
            {"lost": 151, "counted": 3000, "share": 151 / 3000},
            "151 of 3000 tokens, 0.050, were discarded: ",
        ),
        (
            "few_requests",
            {"requests": 6.875, "counted": 6.875 / 1.4, "threshold": 5, "least": 1.4},
            "6.9 requests passed through the window one after the other. They count as 4.9, because the ",
        ),
    ],
)
def test_the_text_has_the_numbers_of_the_condition(name, values, text):
    finding = found(**EDGES[name][0])[name]
    assert finding.values == pytest.approx(values, rel=1e-4)
    assert finding.text.startswith(text)


class TestLostPrefixCache:
    BASELINE = RequestBaseline(0.05, 0.85)

    @pytest.mark.parametrize(
        "change",
        [
            {"prefix_cache_hits": 1},
            {"prefix_cache_hits": None},
            {"prefix_cache_queries": None},
            {"first_tokens": 19},
            {"first_tokens": None},
            {"request_baseline": replace(BASELINE, prefix_hit_ratio=0.009)},
        ],
        ids=str,
    )
    def test_a_cache_with_hits_or_too_few_look_ups_or_a_baseline_without_hits_is_no_loss(self, change):
        assert "prefix_cache_lost" in found(**NO_HITS)
        assert "prefix_cache_lost" not in found(**{**NO_HITS, **change})

    def test_with_a_baseline_the_text_has_its_hits_and_both_times_to_first_token(self):
        waited = {"first_token_nanoseconds": 100 * 537_000_000}
        finding = found(**NO_HITS, **waited, request_baseline=self.BASELINE)["prefix_cache_lost"]
        assert finding.text.endswith(
            "Without speculation 0.850 of the prompt tokens were found. The mean time to first token is 0.537 s, "
            "without it 0.05 s."
        )
        assert finding.values["hits_without"] == 0.85

    def test_unknown_hits_of_the_baseline_are_omitted(self):
        baseline = replace(self.BASELINE, prefix_hit_ratio=None)
        finding = found(**NO_HITS, request_baseline=baseline)["prefix_cache_lost"]
        assert "ithout speculation" not in finding.text.partition("hits either.")[2]


NEED_NO_DRAFTS = {
    *(f"broken_{check}" for check in Check),
    *(f"{kind}_drop" for kind in DropKind),
    *("stalled", "kv_pressure", "token_time_tail", "decode_step_tail", "few_drafts"),
}


class TestPreconditions:
    @pytest.mark.parametrize("name", [name for name in NAMES if name not in NEED_NO_DRAFTS])
    def test_findings_about_drafts_need_enough_of_them(self, name):
        beyond = EDGES[name][0]
        many = Policy(min_drafts=1000)
        few = Policy(min_drafts=1001)
        assert name in found(**beyond, policy=Policy(min_drafts=100))
        if name != "cliff":  # which takes as many that got there
            assert name in found(**beyond, policy=many)
        assert name not in found(**beyond, policy=few)

    @pytest.mark.parametrize(
        "name",
        [name for name in NAMES if not name.startswith("broken_") and not name.endswith("_drop")],
    )
    def test_a_partial_window_has_no_findings(self, name):
        assert name not in found(**EDGES[name][0], length=300.0, seconds=20.0)

    @pytest.mark.parametrize("kind", DropKind)
    def test_a_drop_is_a_finding_of_a_partial_window_too(self, kind):
        assert f"{kind}_drop" in found(**EDGES[f"{kind}_drop"][0], length=300.0, seconds=149.0)

    @pytest.mark.parametrize("check", Check)
    def test_a_broken_identity_is_a_finding_of_a_partial_window_too(self, check):
        assert set(found(broken={check}, length=300.0, seconds=1.0)) == {f"broken_{check}"}

    def test_a_drafter_of_which_nothing_is_accepted_has_no_other_finding(self):
        assert set(found(positions=(0, 0, 0, 0))) == {"drafter_dead"}

    def test_a_dead_drafter_of_which_something_is_accepted_has_other_findings(self):
        assert {"drafter_dead", "low_first_position"} <= set(found(positions=(9, 0, 0, 0)))

    def test_an_engine_without_speculation_can_have_a_full_cache(self):
        nothing = {"drafts": 0, "positions": (), "speculates": False}
        assert set(found(**nothing, kv_cache_usage=0.95, preemptions=3)) == {"kv_pressure"}
        assert found(**nothing) == {}

    def test_a_single_draft_is_too_few(self):
        assert found(drafts=1, positions=(1,))["few_drafts"].values["drafts"] == 1
        assert found(drafts=0, positions=(0,)) == {}

    def test_an_engine_without_counters_has_no_findings(self):
        evaluation = Evaluation((window(),), Knowledge(speculates=False))
        assert findings(evaluation, frozenset(), DropStatus()) == ()

    @pytest.mark.parametrize("positions", [(), (0, 0, 0, 0)])
    def test_unknown_positions_have_no_findings(self, positions):
        assert found(positions=positions, draft_tokens=4000, accepted=2000) == {}


class TestCliff:
    def test_is_at_the_first_such_position(self):
        finding = found(positions=(900, 800, 300, 100))["cliff"]
        assert finding.values["position"] == 2
        assert "Draft 2 tokens" in finding.text

    def test_is_at_a_position_that_is_never_accepted(self):
        assert found(positions=(800, 600, 0, 0))["cliff"].values["position"] == 2

    def test_needs_enough_drafts_that_reach_the_position(self):
        assert found(positions=(200, 100, 5))["cliff"].values["position"] == 2
        assert "cliff" not in found(positions=(198, 99, 5))

    def test_a_smooth_decay_is_none(self):
        for positions in ((900, 850, 780, 700), (800, 650, 500, 350), (740, 540, 410, 300, 220, 160)):
            assert "cliff" not in found(positions=positions)

    def test_ignores_drafts_that_may_have_ended_before(self):
        # A thousand drafts of 4 tokens or fewer; at most 400 of them end before the third.
        assert "cliff" in found(positions=(900, 800, 300, 200), draft_tokens=4000)
        assert "cliff" not in found(positions=(900, 800, 300, 200), draft_tokens=3200)


class TestDepths:
    def test_no_speculation_is_not_another_depth(self):
        assert set(found(**measured(0.9), **recommended(0))) == {"no_depth_pays"}
        assert set(found(**measured(0.9), **recommended(1))) == {"another_depth"}

    def test_the_present_depth_is_named_too(self):
        text = found(**EDGES["another_depth"][0])["another_depth"].text
        assert "as without speculation, instead of 1.33 times (num_speculative_tokens)." in text

    def test_an_equally_fast_depth_is_not_worth_a_change(self):
        # 3.0 / 1.45 = 2.069 as it runs, 2.8 / 1.35 = 2.074 with three.
        assert found(**measured(0.1), **recommended(3)) == {}


class TestCosts:
    def test_a_stated_load_is_not_asked_for(self):
        ratio = {"draft_cost_ratio": 0.1}
        stated = found(**configured(**ratio, running_requests=4), running=80.0)
        assert "cost_out_of_range" in stated
        assert "cost_without_load" not in stated
        unstated = found(**configured(**ratio), running=80.0)
        assert "cost_without_load" in unstated
        assert "cost_out_of_range" not in unstated

    def test_ways_to_measure_are_listed_cheapest_first(self):
        text = found(**EDGES["unclear_cost"][0])["unclear_cost"].text
        ways = [
            "baseline.prometheus",
            "wait until",
            "without speculation for ten minutes",
            "experiment",
            "cost.loads",
        ]
        places = [text.index(way) for way in ways]
        assert places == sorted(places)

    def test_an_engine_without_speculation_has_no_unknown_cost(self):
        assert "unknown_cost" not in found(measured=(), speculates=False)


class TestCoverage:
    FEW = {"decode_steps": 2001, "generation_tokens": 4101}  # noqa: RUF012

    @pytest.mark.parametrize("method", ["eagle3", "draft_model", "mtp", "medusa"])
    def test_a_drafter_that_has_a_draft_for_every_step_paused(self, method):
        assert set(found(**self.FEW, speculation=Speculation(method))) == {"drafting_paused"}

    @pytest.mark.parametrize("method", ["ngram", "[ngram]", "ngram_gpu", "suffix", ""])
    def test_a_drafter_that_searches_has_low_coverage(self, method):
        assert set(found(**self.FEW, speculation=Speculation(method))) == {"low_coverage"}

    @pytest.mark.parametrize("method", ["eagle3", "ngram", ""])
    def test_a_schedule_with_pauses_has_no_finding(self, method):
        off, less = BatchSchedule((1, 32), (4, 0)), BatchSchedule((1, 32), (4, 1))
        assert found(**self.FEW, speculation=Speculation(method, schedule=off)) == {}
        assert len(found(**self.FEW, speculation=Speculation(method, schedule=less))) == 1


class TestScheduleFlips:
    def test_names_the_nearest_boundary_and_its_numbers(self):
        finding = found(increments=flipping(20), running=9.0, speculation=SCHEDULED)["schedule_flips"]
        assert finding.values == {
            "changes": 20,
            "polls": 40,
            "running": pytest.approx(9.0),
            "boundary": 8,
            "below": 4,
            "above": 2,
        }
        assert "from 8 on it drafts 2 instead of 4" in finding.text

    def test_a_poll_in_which_it_changed_counts(self):
        mixed = {**LONG_DRAFTS, "drafts": 12, "draft_tokens": 48, "decode_steps": 25}
        assert "schedule_flips" in found(increments=[mixed] * 40, running=9.0, speculation=SCHEDULED)

    @pytest.mark.parametrize(
        "speculation",
        [
            Speculation("draft_model"),
            Speculation("draft_model", schedule=BatchSchedule((1,), (4,))),
            replace(SCHEDULED, method="ngram"),
            replace(SCHEDULED, method=""),
        ],
    )
    def test_needs_a_schedule_and_a_method_that_drafts_in_every_step(self, speculation):
        assert "schedule_flips" not in found(increments=flipping(20), running=9.0, speculation=speculation)

    def test_few_polls_and_polls_with_few_steps_show_nothing(self):
        few = [{**each, "decode_steps": 9} for each in flipping(20)]
        for increments in (flipping(20)[:19], few):
            assert "schedule_flips" not in found(increments=increments, running=9.0, speculation=SCHEDULED)


class TestLastPosition:
    def test_one_position_is_never_wasted(self):
        assert set(found(positions=(99,))) == {"low_first_position", "low_rate"}

    def test_the_second_of_two_can_be(self):
        assert "wasted_last_position" in found(positions=(800, 99))

    def test_a_position_that_few_drafts_have_is_not_wasted(self):
        assert "wasted_last_position" in found(positions=(800, 600, 400, 9), draft_tokens=3100)
        assert "wasted_last_position" not in found(positions=(800, 600, 400, 10), draft_tokens=3100)

    def test_there_is_room_only_as_far_as_the_cost_allows(self):
        room = {"positions": (800, 600, 400, 301)}
        assert "room_for_longer_draft" in found(**room, **recommended(5))
        assert "room_for_longer_draft" not in found(**room, **recommended(4))
        assert "room_for_longer_draft" not in found(**room, **recommended(0))

    def test_there_is_no_room_where_speculation_is_poor(self):
        assert "room_for_longer_draft" in found(positions=(800, 600, 400, 301), **measured(0.3))
        assert "room_for_longer_draft" not in found(positions=(800, 600, 400, 301), **measured(0.6))


class TestUnknownValues:
    def test_unknown_accepted_tokens_have_no_findings(self):
        evaluation = Evaluation((window(1000, 4000, positions=(0,) * 4),), Knowledge())
        assert {finding.name for finding in findings(evaluation, frozenset(), DropStatus())} == {
            "unknown_cost"
        }

    @pytest.mark.parametrize("name", ["decode_steps", "generation_tokens", "first_tokens"])
    def test_coverage_needs_all_its_counters(self, name):
        assert found(**{**EDGES["low_coverage"][0], name: None}) == {}

    @pytest.mark.parametrize("name", ["decode_steps", "generation_tokens", "first_tokens"])
    def test_trimmed_tokens_need_all_their_counters(self, name):
        assert found(**{**EDGES["trimmed_tokens"][0], name: None}) == {}

    def test_more_tokens_than_counted_are_not_trimmed(self):
        assert found(generation_tokens=9999) == {}

    @pytest.mark.parametrize("unknown", [{"running": None}, {"first_tokens": None}])
    def test_few_requests_need_known_requests(self, unknown):
        assert "few_requests" not in found(**{**BUSY, **unknown})

    def test_idle_time_does_not_count_for_requests(self):
        # As many as eight at a time in half of the window are sixteen then.
        half = [{"generation_tokens": 206 * (second % 2)} for second in range(30)]
        few = found(first_tokens=100, increments=half)["few_requests"]
        assert few.values["requests"] == pytest.approx(6.25)
        assert "few_requests" not in found(**{**BUSY, "first_tokens": 100})

    def test_an_unknown_load_exceeds_no_limit(self):
        assert set(found(running=None, **BY_LOAD)) <= {"unclear_cost"}

    def test_a_cost_without_a_load_holds_for_all(self):
        sizes = configured(draft_parameters=1e8, target_parameters=7e10)
        assert "cost_out_of_range" not in found(**sizes, running=1000.0)

    def test_a_full_cache_without_preemptions_is_no_finding(self):
        assert found(kv_cache_usage=1.0) == {}
        assert found(kv_cache_usage=1.0, preemptions=None) == {}
        assert found(kv_cache_usage=None, preemptions=9) == {}

    @pytest.mark.parametrize("latency", [Latency.TIME_PER_OUTPUT_TOKEN, Latency.DECODE_STEP])
    def test_a_tail_needs_a_hundred_observations(self, latency):
        assert len(found(latencies={latency: tail(1.0, 100)})) == 1
        assert found(latencies={latency: tail(1.0, 99)}) == {}
        assert found(latencies={latency: Buckets((), ())}) == {}

    def test_a_median_of_0_has_no_tail(self):
        instant = Buckets((0.0, 1.0, inf), (900, 1000, 1000))
        assert found(latencies={Latency.DECODE_STEP: instant}) == {}

    def test_other_latencies_have_no_tail_finding(self):
        others = (Latency.TIME_TO_FIRST_TOKEN, Latency.END_TO_END, Latency.QUEUE)
        assert found(latencies=dict.fromkeys(others, tail(9.0))) == {}


class TestChangingK:
    """A schedule drafts four tokens in half of the increments, and two in the others."""

    def changing(self, long=LONG_DRAFTS, **more):
        increments = [long, SHORT_DRAFTS] * 20
        names = ("drafts", "draft_tokens")
        totals = {name: sum(one[name] for one in increments) for name in names}
        positions = tuple(map(sum, zip(*(one["positions"] for one in increments), strict=True)))
        return found(positions=positions, increments=increments, **totals, **more)

    def test_drafts_that_lack_a_position_make_no_cliff_and_waste_nothing(self):
        assert self.changing() == {}

    def test_the_last_position_is_evaluated_by_the_drafts_that_had_it(self):
        high = self.changing({**LONG_DRAFTS, "positions": (20, 18, 15, 10)})
        assert high["room_for_longer_draft"].values["acceptance"] == 0.4
        low = self.changing({**LONG_DRAFTS, "positions": (20, 15, 8, 2)})
        assert low["wasted_last_position"].values["acceptance"] == 0.08

    def test_a_cliff_is_of_the_drafts_that_had_the_position(self):
        cliff = self.changing({**LONG_DRAFTS, "positions": (20, 15, 4, 3)})["cliff"]
        assert cliff.values == pytest.approx(
            {"position": 2, "acceptance": 4 / 15, "position_before": 1, "acceptance_before": 0.75}
        )

    def test_too_few_drafts_with_a_position_say_nothing_about_it(self):
        long = {**LONG_DRAFTS, "positions": (20, 15, 8, 2)}
        assert self.changing(long, policy=Policy(min_drafts=500)).keys() == {"wasted_last_position"}
        assert self.changing(long, policy=Policy(min_drafts=501)) == {}

    def test_expectations_are_of_the_positions_that_every_draft_had(self):
        expected = Speculation(expected_positions=(0.8, 0.75, 1.0, 1.0))
        assert self.changing(speculation=expected) == {}
        expected = Speculation(expected_positions=(0.8, 0.95, 1.0, 1.0))
        assert self.changing(speculation=expected)["below_expectation"].values["position"] == 1


class TestBelowExpectation:
    def test_the_first_position_below_is_named(self):
        expected = Speculation(expected_positions=(0.85, 0.95, 0.99, 0.99))
        finding = found(speculation=expected, increments=STEADY)["below_expectation"]
        assert (finding.values["position"], finding.values["acceptance"]) == (1, 0.75)

    def test_a_weak_first_position_does_not_lower_the_next(self):
        increments = [{**STEADY[0], "positions": (10, 8, 6, 4)}] * 40
        expected = Speculation(expected_positions=(0.4, 0.8, 0.75, 0.66))
        known = found(positions=(400, 320, 240, 160), speculation=expected, increments=increments)
        assert "below_expectation" not in known

    def test_more_expected_positions_than_drafted_are_left_out(self):
        expected = Speculation(expected_positions=(0.8, 0.75, 0.66, 0.5, 1.0, 1.0))
        assert found(speculation=expected, increments=STEADY) == {}

    def test_without_bounds_nothing_is_claimed(self):
        expected = Speculation(expected_positions=(0.99,))
        assert found(speculation=expected) == {}
        assert "below_expectation" not in found(
            speculation=expected, increments=STEADY, first_tokens=50, generation_tokens=3050
        )

    def test_a_difference_within_chance_is_none(self):
        """Requests differ: half of the window accepts 0.96 of the first tokens, the other half 0.56."""
        increments = [{**STEADY[0], "positions": (24, 15, 10, 5)}] * 20
        increments += [{**STEADY[0], "positions": (14, 13, 10, 5)}] * 20
        expected = Speculation(expected_positions=(0.92,))
        known = found(positions=(760, 560, 400, 200), speculation=expected, increments=increments)
        assert "below_expectation" not in known
        steady = [{**STEADY[0], "positions": (19, 14, 10, 5)}] * 40
        known = found(positions=(760, 560, 400, 200), speculation=expected, increments=steady)
        assert "below_expectation" in known

    def test_drafts_of_varying_lengths_are_compared_at_the_first_position_alone(self):
        increments = [{**STEADY[0], "draft_tokens": 90}] * 40
        more = {"draft_tokens": 3600, "increments": increments}
        assert "below_expectation" not in found(
            speculation=Speculation(expected_positions=(0.8, 1.0, 1.0, 1.0)), **more
        )
        assert "below_expectation" in found(speculation=Speculation(expected_positions=(1.0,)), **more)


class TestRepetition:
    def test_needs_a_whole_window(self):
        again = {"positions": (990, 300), "length": 300.0}
        assert "repetition" in found(**again, seconds=255.0)
        assert "repetition" not in found(**again, seconds=254.0)


THRESHOLDS = {
    "low_first_position": ("low_first_position", 0.85),
    "wasted_last_position": ("wasted_last_position", 0.25),
}


@pytest.mark.parametrize("key", THRESHOLDS)
def test_thresholds_are_configured(key):
    name, threshold = THRESHOLDS[key]
    more = {
        "decode_steps": 1001,
        "generation_tokens": 3101,
        "preemptions": 1,
        "latencies": {Latency.DECODE_STEP: tail(0.201)},
    }
    policy = Policy.model_validate({"findings": {key: threshold}})
    assert found(**more) == {}
    assert set(found(**more, policy=policy)) == {name}


def is_possible(counts):
    generated, first = counts["generation_tokens"], counts["first_tokens"]
    return generated is None or first is None or first <= generated


COUNTS = st.none() | st.integers(0, 10**7)


@given(
    counts=st.lists(st.integers(0, 10**6), min_size=1, max_size=9).map(
        lambda all_: sorted(all_, reverse=True)
    ),
    counters=st.fixed_dictionaries(
        dict.fromkeys(("decode_steps", "generation_tokens", "first_tokens", "preemptions"), COUNTS)
    ).filter(is_possible),
    gauges=st.fixed_dictionaries({name: st.none() | st.floats(0, 500) for name in GAUGES}),
    tokens=st.none() | st.integers(0, 9),
    costs=st.sampled_from(
        [
            measured(0.1, 4.0),
            measured(0.4, 9.0, 0.1, 0.9),
            BY_LOAD,
            configured(draft_cost_ratio=0.3),
            {"measured": ()},
        ]
    ),
    method=st.sampled_from(["", "eagle3", "ngram"]),
    missing=st.integers(0, 10**6),
    p99=st.floats(0.3, 50),
)
def test_findings_of_any_counters_have_finite_numbers(
    counts, counters, gauges, tokens, costs, method, missing, p99
):
    drafts, *positions = counts
    known = found(
        drafts=drafts,
        positions=tuple(positions),
        draft_tokens=max(sum(positions), drafts * len(positions) - missing),
        latencies={Latency.DECODE_STEP: tail(p99)},
        speculation=Speculation(method),
        **recommended(tokens),
        **costs,
        **counters,
        **gauges,
    )
    for finding in known.values():
        written = [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e[+-]\d+)?", finding.text)]
        for value in finding.values.values():
            assert 0 <= value < inf, finding
            assert any(isclose(value, number, rel_tol=0.01, abs_tol=0.051) for number in written), finding
