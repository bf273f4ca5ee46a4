"""Targets of a history: which series are those of a server, and the names that tell servers apart."""

import pytest

from spec_decode_exporter.history import history_targets
from spec_decode_exporter.history.history_targets import targets_of
from spec_decode_exporter.history.query_api import HistoryError

TOKENS, DRAFTS, RUNNING, EVICTED = (
    f"vllm:{name}"
    for name in (
        "generation_tokens_total",
        "spec_decode_num_drafts_total",
        "num_requests_running",
        "num_preemptions_total",
    )
)


def series(*names, **labels):
    return [{"__name__": name, "model_name": "m", **labels} for name in names]


POD = {"instance": "10.0.0.1:8000", "job": "vllm", "pod": "vllm-0"}
WHOLE = series(TOKENS, DRAFTS, RUNNING, **POD)


def test_series_of_one_server_are_one_target_whatever_the_page_itself_labels():
    found = [*WHOLE, *series(DRAFTS, **POD, engine="1"), *series(DRAFTS, **POD, prometheus_replica="b")]
    assert [target.name for target in targets_of(found)] == ["10.0.0.1:8000 (vllm-0)"]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(series(EVICTED, job="vllm"), id="one series without the labels of a process"),
        pytest.param(series(TOKENS, DRAFTS, RUNNING, job="vllm"), id="all of them, added up"),
        pytest.param(series(EVICTED, instance="10.0.0.1:8000", job="vllm"), id="one without the pod"),
        pytest.param(series(EVICTED, **POD, shard="1"), id="one with one more label"),
        pytest.param(series("kserve_vllm:num_requests_running", **POD), id="an alias of a gauge"),
        pytest.param(series("kserve_vllm:generation_tokens_total", **POD), id="an alias of a counter"),
    ],
)
def test_no_further_target_are(more):
    (target,) = targets_of([*WHOLE, *more])
    assert target.labels == POD
    assert target.prefix == "vllm:"


def test_a_server_whose_labels_became_more_is_two_whose_selectors_share_nothing():
    fewer = {name: POD[name] for name in ("instance", "job")}
    before, after = targets_of([*series(TOKENS, **fewer), *WHOLE])
    assert before.labels == fewer
    assert 'pod=""' in before.selector().matchers
    assert 'pod="vllm-0"' in after.selector().matchers


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([{"instance": "a:1"}, {"instance": "b:1"}], ["a:1", "b:1"]),
        ([{"instance": "a:1", "cluster": name} for name in "xy"], ["a:1 (cluster=x)", "a:1 (cluster=y)"]),
        ([{"instance": "a:1", "exported_engine": name} for name in "01"], ["a:1 (exported_engine=0)", "a:1 (exported_engine=1)"]),
        ([{"instance": "vllm-0:1", "pod": "vllm-0"}], ["vllm-0:1"]),
        ([{"job": "vllm"}], ["job=vllm"]),
        ([{}], ["all"]),
    ],
)  # fmt: skip
def test_a_name_has_the_labels_that_tell_servers_apart(labels, names):
    found = targets_of([each for its in labels for each in series(TOKENS, **its)])
    assert [target.name for target in found] == names


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ([TOKENS, DRAFTS], []),
        ([RUNNING], [TOKENS, "vllm:time_to_first_token_seconds_count", "vllm:inter_token_latency_seconds_count"]),
        ([TOKENS, "vllm:spec_decode_num_draft_tokens_total"], [DRAFTS]),
        ([TOKENS, "vllm:time_to_first_token_seconds_count", "vllm:inter_token_latency_seconds_count"], []),
        (["sglang:num_running_reqs"], ["sglang:generation_tokens_total"]),
    ],
)  # fmt: skip
def test_series_without_which_drafts_are_not_known_are_missing(names, missing):
    (target,) = targets_of(series(*names, instance="a:1"))
    assert list(target.missing) == missing


def test_servers_that_differ_in_countless_labels_are_refused(monkeypatch):
    monkeypatch.setattr(history_targets, "MAX_LABEL_NAMES", 3)
    with pytest.raises(HistoryError, match="more than 3 combinations of labels"):
        targets_of([each for name in "abcd" for each in series(TOKENS, **{name: "x"})])
