"""Evidence that is missing for a verdict."""

import re
from dataclasses import replace
from functools import reduce
from math import inf
from operator import or_

import pytest
import yaml

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.missing_evidence import (
    WAYS,
    Evidence,
    MissingEvidence,
    missing,
    needs_cost,
    ways_to_know,
)
from spec_decode_exporter.analysis.verdict import SpeedupRange, Verdict
from spec_decode_exporter.analysis.window_evaluation import MIN_VERDICT_REQUESTS, WindowEvaluation
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.config.load import load
from spec_decode_exporter.costs.baseline import BaselineSummary
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS, Estimate
from tests.fakes.costs import make_cost
from tests.fakes.evaluations import GOOD, busy_window, curve, knowledge

UNKNOWN = object()


def after(seconds, requests=None, *, drafts=100, polls=None):
    """The evaluation after these seconds, in which that many requests passed one after the other."""
    its = busy_window(seconds=seconds, drafts=drafts)
    if requests is not None:
        first = None if requests is UNKNOWN else requests * 4  # four run at a time
        its = replace(its, total=its.total._replace(first_tokens=first))
    return Evaluation([replace(its, polls=polls or its.polls)], knowledge())


@pytest.mark.parametrize(
    ("seconds", "more", "needs"),
    [
        (34, {"drafts": 2}, [(Evidence.DRAFTS, 100, 68)]),
        (40, {"polls": 2}, [(Evidence.POLLS, 3, 2)]),
        # Few requests: more of them, or half of the longest window
        (
            34,
            {"requests": 3},
            [(Evidence.REQUESTS, MIN_BOUND_REQUESTS, 3 / 1.4), (Evidence.SECONDS, 150.0, 34)],
        ),
        (8, {"requests": 30, "drafts": 400}, [(Evidence.SECONDS, 15.0, 8)]),
        (84, {"requests": UNKNOWN}, [(Evidence.SECONDS, 150.0, 84)]),
        (300, {"requests": 1}, [(Evidence.REQUESTS, MIN_VERDICT_REQUESTS, 1 / 1.4)]),
        # With a verdict
        (300, {}, []),
    ],
)
def test_more_data_are_needed(seconds, more, needs):
    found = after(seconds, **more).missing
    assert [need.evidence for need in found] == [evidence for evidence, *_ in needs]
    assert [need[1:] for need in found] == [pytest.approx(numbers) for _, *numbers in needs]


def test_bounds_since_a_change_need_more_time_than_the_first_ones():
    since = busy_window(seconds=20, length=20.0)
    its = Evaluation([busy_window()], replace(knowledge(), since_change=since, change_wall=0.0))
    assert its.missing == (MissingEvidence(Evidence.SECONDS, 25.5, 20),)
    assert its.seconds_to_verdict == pytest.approx(5.5)


@pytest.mark.parametrize(
    ("length", "need"),
    [
        (Estimate(2.0, 1.2, 2.4, 0.3), MissingEvidence(Evidence.HALF_WIDTH, 0.25, pytest.approx(0.4))),
        # A speed-up that may be below 1 needs a higher lower bound.
        (Estimate(2.0, 1.8, 2.2, 0.1), MissingEvidence(Evidence.LOWEST_SPEEDUP, 1.0, 0.59)),
    ],
)
def test_a_whole_window_needs_narrower_bounds(length, need):
    its = WindowEvaluation(busy_window(), knowledge())
    its.acceptance_length_bounds = length
    its.speedup_range = SpeedupRange(Estimate(1.59, 0.59, 3.76, 0.5), 1.54, 1.64)
    assert missing(its, 300.0) == (need,)


@pytest.mark.parametrize(
    ("seconds", "more", "verdict"),
    [
        (8, {"requests": 30}, 7.0),
        # 1 in 20 s counts as 0.71: 5 in 140 s
        (20, {"requests": 1}, 120.0),
        # 0.4 count as 0.29: 5 in 350 s, 1.4 in 98 s
        (20, {"requests": 0.4}, 130.0),
        (20, {"requests": 0}, inf),
        (34, {"requests": 30, "drafts": 2}, 16.0),
        (200, {"requests": 30, "drafts": 0.25}, inf),
        # With a verdict, without drafts, with two polls, over a whole window there is none.
        *((*case, None) for case in ((300, {}), (20, {"drafts": 0}), (20, {"polls": 2}))),
        (300, {"requests": 1}, None),
    ],
)
def test_the_time_to_a_verdict_is_extrapolated_at_the_present_rate(seconds, more, verdict):
    expected = None if verdict is None else pytest.approx(verdict)
    assert after(seconds, **more).seconds_to_verdict == expected


# Ways to know

STEPS = ["history", "plain_period", "replica", "by_hand"]
TYPICAL = {"method": "eagle3", "engine_kind": "vllm"}


@pytest.mark.parametrize(
    ("known", "names"),
    [
        ({}, ["method", *STEPS]),
        (TYPICAL, STEPS),
        ({**TYPICAL, "schedule": BatchSchedule((1, 9), (3, 0))}, ["schedule_in_force", *STEPS]),
        ({**TYPICAL, "baseline": BaselineSummary()}, ["baseline_loads", "replica", "by_hand"]),
    ],
    ids=["nothing known", "typical", "a schedule that pauses", "a baseline at other loads"],
)  # fmt: skip
def test_ways_to_know_apply_where_they_can_help_cheapest_first(known, names):
    assert [way.name for way in ways_to_know(WindowEvaluation(busy_window(), knowledge(**known)))] == names
    assert [name for name in WAYS if name in names] == names


def test_no_way_of_a_history_is_to_wait():
    past = knowledge(schedule=BatchSchedule((1, 9), (3, 0)), settings_place="history")
    found = ways_to_know(WindowEvaluation(busy_window(), past))
    assert [way.name for way in found] == ["method", "longer_history", "by_hand"]
    assert "--since 30d" in [way.paste for way in found]
    assert not any(re.search("wait|let it run", way.text, re.IGNORECASE) for way in found)


def test_an_engine_that_adapts_or_counts_no_steps_has_fewer_ways():
    known, its = knowledge(**TYPICAL), busy_window()
    adaptive = replace(known, speculation=replace(known.speculation, is_adaptive=True))
    without_steps = replace(its, total=its.total._replace(decode_steps=None))
    found = [ways_to_know(WindowEvaluation(*each)) for each in ((its, adaptive), (without_steps, known))]
    assert [[way.name for way in ways] for ways in found] == [
        ["history", "plain_period", "replica"],
        ["replica", "by_hand"],
    ]


def test_after_a_baseline_the_way_is_more_traffic_and_not_the_same_again():
    its = WindowEvaluation(busy_window(), knowledge(curve((4, 0.3), source=CostSource.BASELINE), **TYPICAL))
    its.speedup_range = SpeedupRange(Estimate(1.1, 0.9, 1.4, 0.1), 0.95, 1.3)
    assert its.verdict is Verdict.UNCLEAR
    ways = ways_to_know(its)
    assert [way.name for way in ways] == ["more_traffic", "replica", "by_hand"]
    assert (
        "about 7 times as much traffic" in ways[0].text
    )  # half of ln(1.4 / 0.9) over ln 1.1, squared, and one


@pytest.mark.parametrize(
    ("verdict", "cost", "positions", "needs"),
    [
        (Verdict.UNCLEAR, None, GOOD, True),
        (Verdict.POOR, None, GOOD, True),
        (Verdict.POOR, make_cost(), GOOD, False),
        (Verdict.HEALTHY, None, GOOD, False),
        (Verdict.UNCLEAR, None, (0.04, 0.0, 0.0, 0.0), False),
    ],
    ids=["unclear", "poor by others", "poor", "healthy", "nearly dead"],
)
def test_the_cost_is_needed_where_it_decides_and_never_of_a_dead_drafter(verdict, cost, positions, needs):
    its = WindowEvaluation(busy_window(positions), knowledge(**TYPICAL))
    its.cost = cost
    assert needs_cost(its, verdict) is needs


def pastes(place):
    known = knowledge(server="http://vllm-a:8000", settings_place=place)
    return {way.name: way for way in ways_to_know(WindowEvaluation(busy_window(), known))}


def test_what_to_paste_names_the_server_and_is_flags_of_an_exporter_that_was_started_by_flags():
    ways = pastes("flags")
    assert ways["method"].paste == "--speculative.method METHOD"
    assert ways["history"].paste == "--baseline.prometheus.url http://PROMETHEUS:9090"
    assert ways["by_hand"].paste == "--cost.draft-cost-ratio C --cost.running-requests 4"
    assert ways["by_hand"].text.endswith("C is (T1 / T0 - 1) / 4")
    assert {way.place for way in ways.values() if way.paste.startswith("--")} == {"the exporter's flags"}


@pytest.mark.parametrize(
    ("place", "name"), [("file", "the exporter's configuration"), ("chart", "the chart's values")]
)
def test_what_to_paste_into_a_file_or_the_charts_values_is_a_valid_configuration(place, name, tmp_path):
    written = {way.name: way.paste for way in pastes(place).values() if way.paste}
    assert written.keys() == {"method", "history", "replica", "by_hand"}
    assert {way.place for way in pastes(place).values() if way.paste} == {name}
    values = {key: yaml.safe_load(re.sub(r"\bC\b", "0.1", paste)) for key, paste in written.items()}
    merged = reduce(or_, (value["config"] if place == "chart" else value for value in values.values()))
    (tmp_path / "exporter.yml").write_text(yaml.safe_dump(merged))
    config = load(tmp_path / "exporter.yml", environ={})
    assert [(target.url, target.speculative.method) for target in config.targets] == [
        ("http://vllm-a:8000/metrics", "METHOD")
    ]
    assert config.baseline.prometheus.url == "http://prometheus:9090"
    assert (config.cost.draft_cost_ratio, config.cost.running_requests) == (0.1, 4)
    assert config.experiments[0].arms["on"].match == {"method": "METHOD"}


def test_a_pod_needs_a_volume_for_what_it_learns():
    assert ", if a volume keeps `state.file`" in pastes("chart")["plain_period"].text
    assert "volume" not in pastes("flags")["plain_period"].text


def test_a_method_that_vllm_does_not_have_is_never_in_a_text_to_paste():
    known = knowledge(method='x"}}; rm -rf')
    assert not [
        way for way in ways_to_know(WindowEvaluation(busy_window(), known)) if "; rm" in way.paste + way.text
    ]
