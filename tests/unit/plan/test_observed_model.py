"""Plans of an observation: its acceptance, throughput and cost."""

import json

import pytest

from spec_decode_exporter.costs.cost import CostSource
from spec_decode_exporter.plan.model_config import ModelError
from spec_decode_exporter.plan.observed_model import measured, read
from spec_decode_exporter.reports.saved_snapshot import SavedFileError
from tests.unit.plan.conftest import planned

PAIR = ("--target", "8B", "--draft", "1B")


def test_acceptance_and_cost_come_from_the_observation(seen):
    view, file = seen("harmful")
    window = view.engines[0].windows[-1]
    found = planned(*PAIR, "--measured", file)
    assert found.cost_source is view.engines[0].cost.source is CostSource.CONFIGURED
    assert found.cost.draft_cost_ratio == view.engines[0].cost.draft_cost_ratio == 0.3
    assert tuple(found.reached[:4]) == window.position_acceptance_ratio
    assert [depth.measured for depth in found.depths] == [True] * 4 + [False] * 4
    table = {depth.tokens: depth.speedup_ratio for depth in view.engines[0].depths}
    assert [depth.speedup_ratio for depth in found.depths[:6]] == pytest.approx(
        [table[tokens] for tokens in range(1, 7)]
    )
    assert found.best_tokens == view.engines[0].recommended_tokens == 1


def test_engines_of_one_model_are_merged_and_those_that_draft_differently_rejected(seen):
    alone, both = (measured(seen(*scenarios)[0]) for scenarios in (["harmful"], ["harmful", "harmful"]))
    assert (alone.engines, both.engines) == (1, 2)
    assert both.generation_tokens_per_second == pytest.approx(alone.generation_tokens_per_second, rel=0.05)
    assert both.positions == pytest.approx(alone.positions, rel=0.05)
    with pytest.raises(ModelError, match="several models, methods or K"):
        measured(seen("harmful", "ngram")[0])


@pytest.mark.parametrize("content", ["", "{}", "[]", "{", json.dumps({"engines": []}), "\n\n"])
def test_another_file_is_rejected(tmp_path, content):
    file = tmp_path / "other.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(SavedFileError, match=r"other\.json: it (is neither|has no measured models)"):
        read(file)
