"""Document of an engine."""

from dataclasses import replace
from math import inf

import pytest

from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Knowledge
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.views.engine_view import EngineView
from tests.fakes.engines import WALL

LABELS = {"target": "one", "model_name": "m", "engine": "0", "team": "a"}


def test_a_window_is_shown_with_its_bounds(busy):
    view = EngineView(labels=LABELS, snapshot=busy)
    short, long = view.windows
    assert view.longest == long
    assert EngineView(labels=LABELS, snapshot=busy, shown=("5m",)).windows == (long,)
    assert (short.window, long.window, long.partial) == ("30s", "5m", False)
    for window in (short, long):
        for name in ("draft_acceptance_ratio", "acceptance_length_tokens", "estimated_speedup_ratio"):
            shown = getattr(window, name)
            assert shown.lower <= shown.value <= shown.upper
    assert long.acceptance_length_tokens.value == pytest.approx(1 + 1320 / 400)
    assert len(long.position_acceptance_ratio) == 8
    assert sum(long.accepted_length_ratio) == pytest.approx(1)
    assert view.latency_seconds["queue"].p50 == pytest.approx(0.1)


def test_the_evaluated_window_says_what_the_verdict_is_about(busy):
    view = EngineView(labels=LABELS, snapshot=busy)
    long, evaluated = view.windows[-1], view.evaluated
    assert (evaluated.basis, evaluated.seconds, evaluated.early) == ("longest", long.seconds, False)
    assert evaluated.since is None
    assert evaluated.estimated_speedup_ratio == long.estimated_speedup_ratio
    assert view.evaluated_at == WALL + 310
    assert view.pays_share_ratio == busy.evaluation.pays_share_ratio is not None


def test_depths_mark_the_recommended_one_and_those_beyond_k(busy):
    view = EngineView(labels=LABELS, snapshot=busy)
    assert [depth.tokens for depth in view.depths if depth.recommended] == [view.recommended_tokens]
    assert all(depth.extrapolated == (depth.tokens > view.configured_tokens) for depth in view.depths)


@pytest.mark.parametrize(
    ("method", "in_parallel", "text"),
    [
        ("eagle3", False, "eagle3 with 8 tokens usually gives 2.4 to 3.8 tokens a draft (16 published measurements)."),
        ("eagle3", True, ""),
        ("ngram", False, ""),
    ],
)  # fmt: skip
def test_the_usual_length_is_that_of_the_method(busy, method, in_parallel, text):
    its = Speculation(method, drafts_in_parallel=in_parallel)
    evaluation = Evaluation((), replace(busy.evaluation.known, speculation=its))
    shown = EngineView(labels=LABELS, snapshot=replace(busy, evaluation=evaluation))
    assert shown.usual_length_text == text


def test_a_quantile_names_its_bucket_and_the_last_one_has_no_end(busy):
    buckets = {
        Latency.QUEUE: Buckets((0.1, 1.0, inf), (50, 96, 100)),
        Latency.END_TO_END: Buckets((inf,), (0,)),
    }
    evaluation = Evaluation([its.window for its in busy.evaluation.windows], Knowledge(), buckets)
    shown = EngineView(labels=LABELS, snapshot=replace(busy, evaluation=evaluation)).latency_seconds
    queue = shown[Latency.QUEUE].model_dump(mode="json")
    assert queue["p50"] == pytest.approx(0.1)
    assert queue["buckets"] == {
        "p50": {"lower": 0.0, "upper": 0.1},
        "p95": {"lower": 0.1, "upper": 1.0},
        "p99": {"lower": 1.0, "upper": None},
    }
    assert shown[Latency.END_TO_END].model_dump() == {"p50": None, "p95": None, "p99": None, "buckets": {}}
