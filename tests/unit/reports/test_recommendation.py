"""Settings as text, as lines for servers, and as JSON."""

import json
import shlex

import pytest

from spec_decode_exporter.analysis.drafting import Drafting
from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.analysis.measuring_schedule import LoadTime
from spec_decode_exporter.analysis.recommended_setting import UNKNOWN_SETTING, Obstacle, SpeculationSetting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Action, Verdict
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.costs.cost import CostModel, CostSource
from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.reports.recommendation import (
    FORMATS,
    measured_together,
    measuring_status,
    recommendation_status,
    written,
    written_measuring,
)
from spec_decode_exporter.reports.saved_snapshot import SavedEngine
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.views.engine_view import EngineView
from tests.fakes.evaluations import advised

LABELS = {"target": "chat-0", "model_name": "org/target", "engine": "0"}
BANDS = (
    LoadBand(1, 15, 4, 2.3, 0.01, 8, 2.2, Verdict.OPTIMAL, is_improvable=True),
    LoadBand(16, 64, 2, 1.3, 0.01, 8, 0.9, Verdict.HARMFUL, is_improvable=True),
)
BY_LOAD = SpeculationSetting(
    4,
    BatchSchedule((1, 16), (4, 2)),
    True,
    BANDS,
    CostSource.MEASURED,
    (1.0, 64.0),
    (Obstacle.PIECEWISE_GRAPHS,),
)
EAGLE = Speculation("eagle3", "configured", "org/draft", 8)


@pytest.fixture(name="engine")
def fixture_engine(busy):
    def engine(setting=BY_LOAD, speculation=EAGLE, action=Action.KEEP, **more):
        snapshot = advised(busy, setting, speculation, action, **more)
        return SavedEngine.model_validate(EngineView(labels=LABELS, snapshot=snapshot))

    return engine


def lines(engine, form):
    """Return the lines that are no comment."""
    return [line for line in written([engine], form, TextStyle()).splitlines() if not line.startswith("#")]


def test_vllm_gets_one_flag(engine):
    (line,) = lines(engine(), "vllm")
    flag, value = shlex.split(line)
    assert flag == "--speculative-config"
    assert json.loads(value)["num_speculative_tokens_per_batch_size"] == [[1, 15, 4], [16, 64, 2]]


def test_every_format_has_the_warning_about_the_model_runner(engine):
    warned = [form for form in FORMATS if "Model Runner V1" in written([engine()], form, TextStyle())]
    assert warned == ["text", "json", "vllm"]


def test_an_unknown_draft_model_leaves_only_a_comment(engine):
    unknown = engine(speculation=Speculation("eagle3"))
    assert lines(unknown, "vllm") == []
    assert '# {"num_speculative_tokens": 4,' in written([unknown], "vllm", TextStyle())


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "json"])
def test_no_speculation_and_an_unknown_setting_print_no_flag(engine, form):
    off = written([engine(SpeculationSetting(0, is_change=True))], form, TextStyle())
    assert "# Start the server without speculation (vLLM: without --speculative-config)." in off
    unknown = written([engine(UNKNOWN_SETTING, action=Action.MEASURE_COST)], form, TextStyle())
    for text in (off, unknown):
        assert "--speculative-config '" not in text
    assert "baseline.prometheus" in unknown


def test_json_has_the_setting_of_each_engine(engine):
    (shown,) = json.loads(written([engine()], "json", TextStyle()))["engines"]
    assert shown["target"] == "chat-0"
    assert shown["setting"]["schedule"] == [[1, 15, 4], [16, 64, 2]]


def test_every_format_warns_of_acceptance_that_falls_with_the_context(engine):
    found = (
        {"name": "acceptance_falls_with_context", "text": "With long contexts it falls."},
        {"name": "other", "text": "Another one."},
    )
    its = SavedEngine.model_validate({**engine().model_dump(exclude={"warning"}), "findings": found})
    for form in FORMATS:
        text = written([its], form, TextStyle())
        assert "With long contexts it falls." in text
        assert "Another one." not in text
        assert "With long" not in written([engine()], form, TextStyle())


def test_names_of_servers_cannot_control_the_terminal(busy):
    view = EngineView(labels={**LABELS, "model_name": "m\x1b[2J"}, snapshot=busy)
    hostile = SavedEngine.model_validate(view)
    for form in FORMATS:
        assert "\x1b" not in written([hostile], form, TextStyle())


def test_the_status_is_good_only_if_every_setting_is_known(engine):
    known, unknown = engine(), engine(UNKNOWN_SETTING)
    assert recommendation_status([known]) is ExitStatus.GOOD
    assert recommendation_status([known, unknown]) is ExitStatus.UNKNOWN
    assert recommendation_status([]) is ExitStatus.UNKNOWN
    without = engine(UNKNOWN_SETTING, drafting=Drafting.OFF)
    assert recommendation_status([known, without]) is ExitStatus.GOOD
    assert recommendation_status([without]) is ExitStatus.UNKNOWN


LOADS = tuple(LoadTime(float(load), 0.0, 6.0 * load) for load in range(4, 13))


class TestMeasuring:
    @pytest.fixture(name="replica")
    def fixture_replica(self, engine):
        def replica(target="chat-0", speculation=EAGLE, loads=LOADS, **known):
            cost = CostModel(method=speculation.method)
            found = engine(UNKNOWN_SETTING, speculation, Action.MEASURE_COST, loads=loads, cost=cost, **known)
            return found.model_copy(update={"target": target, "id": target})

        return replica

    def test_replicas_of_one_model_get_one_line(self, replica):
        engines = [replica("chat-0"), replica("chat-1")]
        (line,) = [
            each for each in written_measuring(engines, "vllm", TextStyle()).splitlines() if each[0] != "#"
        ]
        flag, value = shlex.split(line)
        assert flag == "--speculative-config"
        assert json.loads(value)["num_speculative_tokens_per_batch_size"][1][2] == 0
        text = written_measuring(engines, "text", TextStyle())
        assert "2 engines of org/target: chat-0, chat-1" in text
        (group,) = json.loads(written_measuring(engines, "json", TextStyle()))["measuring"]
        assert group["engines"] == ["chat-0", "chat-1"]
        assert measuring_status(engines) is ExitStatus.GOOD

    def test_other_settings_and_reasons_are_apart(self, replica):
        others = (
            replica("chat-1", Speculation("mtp", "configured", "", 8)),
            replica("chat-2", data_parallel=True),
        )
        engines = [replica("chat-0"), *others]
        names = [[each.target for each in group.engines] for group in measured_together(engines)]
        assert names == [["chat-0"], ["chat-1"], ["chat-2"]]
        assert "vLLM ignores a schedule" in written_measuring(engines, "text", TextStyle())
        assert measuring_status(engines) is ExitStatus.UNKNOWN

    def test_a_replica_whose_own_loads_are_unknown_gets_the_schedule_of_the_others(self, replica):
        (group,) = measured_together([replica("chat-0", loads=()), replica("chat-1")])
        assert group.measuring.schedule

    def test_without_engines_that_draft_nothing_can_be_measured(self, replica):
        for engines in ([], [replica(drafting=Drafting.OFF)]):
            assert measuring_status(engines) is ExitStatus.UNKNOWN
            assert "No engine" in written_measuring(engines, "text", TextStyle())

    def test_the_text_names_the_obstacles_and_the_way_back(self, replica):
        text = written_measuring([replica()], "text", TextStyle())
        assert "Warning: On Model Runner V1" in text
        assert f"--speculative-config '{replica().measuring.present_config}'" in text
        assert "schedule: [[1, " in text

    def test_the_way_back_has_only_the_known_keys_of_a_setting_that_is_not_complete(self, replica):
        unknown = replica(speculation=Speculation("", "", "", 4))
        lines = written_measuring([unknown], "vllm", TextStyle()).splitlines()
        assert lines[-1] == f"# To go back, have these keys instead: {unknown.measuring.present_config}"
        assert {line[0] for line in lines} == {"#"}

    @pytest.mark.parametrize(
        "text",
        [
            *("{", "[]", "{}", "[" * 100_000),
            *(f'{{"num_speculative_tokens": {number}}}' for number in ("0", "-3", "129", "true", "1" * 5000)),
            '{"num_speculative_tokens": 4, "num_speculative_tokens_per_batch_size": 1}',
        ],
        ids=lambda text: text[:40],
    )
    def test_a_saved_setting_that_is_none_is_rejected(self, replica, text):
        saved = replica().model_dump()
        saved["measuring"]["present_config"] = text
        with pytest.raises(ValueError, match="present_config"):
            SavedEngine.model_validate(saved)
