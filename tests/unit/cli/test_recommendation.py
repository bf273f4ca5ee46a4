"""Settings as text, as lines for servers, and as JSON."""

import json
import shlex

import pytest

from spec_decode_exporter.analysis.knowledge import Drafting
from spec_decode_exporter.analysis.load_bands import LoadBand
from spec_decode_exporter.analysis.recommended_setting import UNKNOWN_SETTING, Obstacle, SpeculationSetting
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.verdict import Action
from spec_decode_exporter.cli.recommend import FORMATS, recommendation_status, written
from spec_decode_exporter.config.batch_schedule import BatchSchedule
from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.reports.exit_status import ExitStatus
from spec_decode_exporter.reports.saved_snapshot import SavedEngine
from spec_decode_exporter.reports.text import TextStyle
from spec_decode_exporter.views.engine_view import EngineView
from tests.fakes.evaluations import advised

LABELS = {"target": "chat-0", "model_name": "org/target", "engine": "0"}
BANDS = (LoadBand(1, 15, 4, 2.3, 0.01, 8, 2.2), LoadBand(16, 64, 2, 1.3, 0.01, 8, 0.9))
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


def engine(busy, setting=BY_LOAD, speculation=EAGLE, action=Action.KEEP, **more):
    """Return the busy engine with another setting, speculation and action."""
    snapshot = advised(busy, setting, speculation, action, **more)
    return SavedEngine.model_validate(EngineView(labels=LABELS, snapshot=snapshot))


def test_vllm_gets_one_flag(busy):
    text = written([engine(busy)], "vllm", TextStyle())
    (line,) = (line for line in text.splitlines() if not line.startswith("#"))
    flag, value = shlex.split(line)
    assert flag == "--speculative-config"
    assert json.loads(value)["num_speculative_tokens_per_batch_size"] == [[1, 15, 4], [16, 64, 2]]


def test_every_format_has_the_warning_about_the_model_runner(busy):
    warned = [form for form in FORMATS if "Model Runner V1" in written([engine(busy)], form, TextStyle())]
    assert warned == ["text", "json", "vllm"]


def test_an_unknown_draft_model_leaves_only_a_comment(busy):
    unknown = engine(busy, speculation=Speculation("eagle3"))
    text = written([unknown], "vllm", TextStyle())
    assert all(line.startswith("#") for line in text.splitlines())
    assert '# {"num_speculative_tokens": 4,' in text


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "json"])
def test_no_speculation_and_an_unknown_setting_print_no_flag(busy, form):
    off = written([engine(busy, SpeculationSetting(0, is_change=True))], form, TextStyle())
    assert "# Start the server without speculation (vLLM: without --speculative-config)." in off
    unknown = written(
        [engine(busy, UNKNOWN_SETTING, action=Action.MEASURE_COST, baseline=None)], form, TextStyle()
    )
    for text in (off, unknown):
        assert "--speculative-config '" not in text
    assert "baseline.prometheus" in unknown


@pytest.mark.parametrize("form", ["text", "vllm"])
def test_the_ways_to_know_of_eight_engines_stand_once(busy, form):
    unknown = engine(busy, UNKNOWN_SETTING, Speculation("eagle3"), action=Action.MEASURE_COST, baseline=None)
    engines = [unknown.model_copy(update={"target": f"chat-{n}"}) for n in range(8)]
    text = written(engines, form, TextStyle())
    assert text.count("a Prometheus with data from before") == 1
    assert all(f"chat-{n}" in text for n in range(8))
    assert len(text.split()) <= 400


def test_json_has_the_setting_of_each_engine(busy):
    (shown,) = json.loads(written([engine(busy)], "json", TextStyle()))["engines"]
    assert shown["target"] == "chat-0"
    assert shown["setting"]["schedule"] == [[1, 15, 4], [16, 64, 2]]


def test_names_of_servers_cannot_control_the_terminal(busy):
    view = EngineView(labels={**LABELS, "model_name": "m\x1b[2J"}, snapshot=busy)
    hostile = SavedEngine.model_validate(view)
    for form in FORMATS:
        assert "\x1b" not in written([hostile], form, TextStyle())


def test_the_status_is_good_only_if_every_setting_is_known(busy):
    known, unknown = engine(busy), engine(busy, UNKNOWN_SETTING)
    assert recommendation_status([known]) is ExitStatus.GOOD
    assert recommendation_status([known, unknown]) is ExitStatus.UNKNOWN
    assert recommendation_status([]) is ExitStatus.UNKNOWN
    without = engine(busy, UNKNOWN_SETTING, drafting=Drafting.OFF)
    assert recommendation_status([known, without]) is ExitStatus.GOOD
    assert recommendation_status([without]) is ExitStatus.UNKNOWN
