"""Schedule that measures the cost: its document, its price, its time, and the reasons against one."""

import json
from dataclasses import replace

import pytest

from spec_decode_exporter.analysis.drafting import Drafting
from spec_decode_exporter.analysis.measuring_schedule import LoadTime, NoMeasuring
from spec_decode_exporter.analysis.recommended_setting import UNKNOWN_SETTING, Obstacle, no_measuring
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Action, Decision, Verdict
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.costs.cost import CostModel, CostSource
from spec_decode_exporter.views.measuring_view import REASONS, measuring_view, with_schedule
from tests.fakes.costs import make_cost
from tests.fakes.evaluations import advised, knowledge

EAGLE = Speculation("eagle3", "configured", "org/draft", 8)
LOADS = tuple(
    LoadTime(float(load), 0.0, 6.0 * seconds)
    for load, seconds in zip(range(4, 13), (4, 8, 12, 18, 24, 18, 10, 4, 2), strict=True)
)
BANDED = BatchSchedule((1, 6, 7), (8, 0, 8))


@pytest.fixture(name="shown")
def fixture_shown(busy):
    def shown(speculation=EAGLE, loads=LOADS, **known):
        snapshot = advised(
            busy,
            UNKNOWN_SETTING,
            speculation,
            Action.MEASURE_COST,
            loads=loads,
            cost=CostModel(method=speculation.method),
            **known,
        )
        snapshot.evaluation.shown = Decision(Verdict.UNCLEAR)
        return measuring_view(snapshot)

    return shown


def test_a_schedule_has_its_bands_its_price_and_its_time_and_the_way_back(shown):
    view = shown()
    (band,) = view.bands
    assert (band.first, band.last, view.reason) == (5, 5, None)
    assert view.schedule == ((1, 4, 8), (5, 5, 0), (6, 24, 8))
    config, present = json.loads(view.speculative_config), json.loads(view.present_config)
    assert config.pop("num_speculative_tokens_per_batch_size") == [list(each) for each in view.schedule]
    assert config == present == {"method": "eagle3", "model": "org/draft", "num_speculative_tokens": 8}
    assert view.share_ratio == pytest.approx(0.08)
    assert 0 < view.price_ratio < view.share_ratio
    assert (
        view.text
        == "Draft nothing at 5 running requests, where the engine spends 8.0 % of its busy time. That costs at most about 6.0 % of the tokens per second. At this traffic the cost is known after about 11 minutes."
    )


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"drafting": Drafting.OFF}, NoMeasuring.NO_TOKENS),
        ({"engine_kind": "sglang"}, NoMeasuring.NOT_VLLM),
        ({"data_parallel": True}, NoMeasuring.DATA_PARALLEL),
        ({"speculation": replace(EAGLE, is_adaptive=True)}, NoMeasuring.ADAPTIVE),
        ({"speculation": Speculation("ngram", "label")}, NoMeasuring.SEARCH),
        ({"speculation": replace(EAGLE, schedule=BANDED)}, NoMeasuring.MEASURING),
        ({"loads": ()}, NoMeasuring.NO_STEPS),
        ({"loads": LOADS[4:5]}, NoMeasuring.CONSTANT_LOAD),
    ],
)
def test_a_reason_against_a_schedule_has_a_text_with_the_remedy(shown, known, reason):
    view = shown(**known)
    assert (view.reason, view.schedule, view.share_ratio) == (reason, (), None)
    assert view.text == REASONS[reason].format(loads="at 6 running requests")


@pytest.mark.parametrize(
    ("source", "verdict", "expected"),
    [
        (CostSource.MEASURED, Verdict.HEALTHY, NoMeasuring.KNOWN),
        (CostSource.BASELINE, Verdict.HARMFUL, NoMeasuring.KNOWN),
        (CostSource.MEASURED, Verdict.UNCLEAR, None),
        (CostSource.TYPICAL, Verdict.HEALTHY, None),
        (CostSource.LOAD_RANGE, Verdict.HEALTHY, None),
    ],
)
def test_a_cost_that_decides_needs_no_measurement(source, verdict, expected):
    assert no_measuring(knowledge(method="eagle3"), make_cost(source=source), verdict, 4) is expected


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("eagle3", [Obstacle.PIECEWISE_GRAPHS]),
        ("medusa", [Obstacle.MODEL_RUNNER_V1]),
        ("draft_model", [Obstacle.PIECEWISE_GRAPHS, Obstacle.UNUSED_DRAFTS]),
    ],
)
def test_obstacles_of_the_model_runner_are_named(shown, method, names):
    view = shown(Speculation(method, "configured", "org/draft", 8))
    assert [each.name for each in view.obstacles] == names


def test_replicas_are_measured_by_the_loads_of_all(shown):
    first, second = (
        shown(),
        shown(loads=tuple(each._replace(running_requests=each.running_requests + 20) for each in LOADS)),
    )
    both = with_schedule([first, second], 2.0)
    assert both.loads == (*first.loads, *second.loads)
    assert [band.first for band in both.bands] != [band.first for band in first.bands]
    assert both.price_ratio == pytest.approx(both.share_ratio / 2)
