"""Plans by observations of simulated servers with a known truth."""

from __future__ import annotations

import json

import pytest

from spec_decode_exporter.reports.observe.observe_report import json_report
from spec_decode_exporter.reports.plan.model_config import ModelError
from spec_decode_exporter.reports.plan.observed_models import measured, read
from spec_decode_exporter.reports.plan.plan_json import as_json
from spec_decode_exporter.reports.plan.plan_report import report
from spec_decode_exporter.reports.plan.planned_cost import CostBasis
from spec_decode_exporter.reports.terminal import TerminalStyle
from spec_decode_exporter.reports.terminal_report import text_report
from tests.reports.observe.conftest import observed
from tests.reports.plan.conftest import planned

__all__ = ("observed",)

PAIR = ("--target", "8B", "--draft", "1B")


@pytest.fixture
def seen(observed, tmp_path):
    """Observe scenarios; return the observation and its file."""

    async def write(*scenarios, **more):
        view = await observed(*scenarios, seconds=60, **more)
        file = tmp_path / "observation.json"
        file.write_text(json_report(view), encoding="utf-8")
        return view, str(file)

    return write


async def test_acceptance_and_cost_come_from_the_observation(seen):
    view, file = await seen("harmful")
    window = view.engines[0].windows[-1]
    found = planned(*PAIR, "--measured", file)
    assert found.costs.basis is CostBasis.MEASURED
    assert found.costs.at(4).token == view.engines[0].cost.draft_cost_ratio == 0.3
    assert found.drafts.reached[:4] == window.position_acceptance_ratio
    assert found.drafts.measured == 4
    table = {depth.tokens: depth.speedup_ratio for depth in view.engines[0].depths}
    assert [depth.speedup for depth in found.depths[:6]] == pytest.approx(
        [table[tokens] for tokens in range(1, 7)]
    )
    assert found.best_tokens == view.engines[0].recommended_tokens == 1


async def test_the_return_is_the_gain_per_memory(seen):
    """(speed-up - 1) times the baseline, which is the throughput over the speed-up, for 2 GB."""
    view, file = await seen("steady")
    window = view.engines[0].windows[-1]
    speedup, rate = window.estimated_speedup_ratio, window.generation_tokens_per_second
    payoff = planned(*PAIR, "--measured", file).payoff
    assert payoff.measured
    assert payoff.gained_tokens_per_second == pytest.approx(rate - rate / speedup.value)
    each = (speedup.value - 1) * (rate / speedup.value) / 2
    assert payoff.tokens_per_second_per_gigabyte == pytest.approx(each)
    low, high = payoff.bounds
    assert low < each < high
    assert low == pytest.approx(each * (speedup.lower - 1) / (speedup.value - 1))


async def test_the_report_names_the_observation(seen):
    view, file = await seen("harmful", "harmful")
    window = view.engines[0].windows[-1]
    found = planned(*PAIR, "--measured", file)
    written = " ".join(text_report(report(found), TerminalStyle()).split())
    assert f"observed {view.engines[0].model_name}, draft_model, 4 tokens at a time, 0." in written
    assert "of them accepted, 2 engines with " in written
    assert " tokens a second each" in written
    observation = json.loads(as_json(found))["observation"]
    assert observation["draft_acceptance_ratio"] == pytest.approx(
        window.draft_acceptance_ratio.value, rel=0.1
    )
    assert (observation["engines"], observation["draft_length_tokens"]) == (2, 4)
    assert json.loads(as_json(planned(*PAIR)))["observation"] is None


async def test_the_estimate_replaces_an_unknown_cost(seen):
    _, file = await seen("harmful", cost=False)
    found = planned(*PAIR, "--measured", file)
    assert found.costs.basis is CostBasis.ESTIMATED_BY_WEIGHTS
    assert found.payoff.speedup == found.depths[3].speedup
    assert found.payoff.bounds is None
    assert not found.payoff.measured


async def test_engines_of_one_model_are_merged(seen):
    one, _ = await seen("harmful")
    two, _ = await seen("harmful", "harmful")
    alone, both = measured(one), measured(two)
    assert (alone.engines, both.engines) == (1, 2)
    assert both.tokens_per_second == pytest.approx(alone.tokens_per_second, rel=0.05)
    assert both.speedup == pytest.approx(alone.speedup, rel=0.05)
    assert (both.lower, both.upper) == (None, None)


async def test_engines_that_draft_differently_are_rejected(seen):
    view, _ = await seen("harmful", "ngram")
    with pytest.raises(ModelError, match="several models, methods or K"):
        measured(view)


async def test_an_observation_without_drafts_is_rejected(seen):
    _, file = await seen("idle", running=90)
    with pytest.raises(ModelError, match=r"observation\.json: nothing was drafted in it"):
        planned(*PAIR, "--measured", file)


@pytest.mark.parametrize("content", ["", "{}", "[]", "{", json.dumps({"engines": []}), "\n\n"])
def test_another_file_is_rejected(tmp_path, content):
    file = tmp_path / "other.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=r"other\.json: it is nothing that spec-decode-exporter observe"):
        read(file)


def test_a_given_throughput_is_the_baseline():
    """2 GB of weights and, with both caches known, the draft's share of the KV cache."""
    words = (*PAIR, "--throughput", "1000")
    found = planned(*words)
    assert not found.payoff.measured
    assert found.payoff.memory_bytes == 2 * 10**9
    assert found.payoff.tokens_per_second_per_gigabyte == pytest.approx((found.depth.speedup - 1) * 1000 / 2)
    cache = planned(*words, "--target.kv-bytes-per-token", "3000", "--draft.kv-bytes-per-token", "1000")
    assert cache.payoff.cache_bytes == pytest.approx(cache.drafting.cache_bytes / 4, rel=1e-9)


def test_a_search_has_no_return_on_memory():
    found = planned("--target", "8B", "--method", "ngram", "--throughput", "1000").payoff
    assert found.memory_bytes == 0
    assert found.tokens_per_second_per_gigabyte is None
    assert found.gained_tokens_per_second > 0
