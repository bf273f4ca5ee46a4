from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_decode_exporter.config.active_yaml import active_yaml
from spec_decode_exporter.config.bench_results import (
    DRAFT_PASS,
    MAX_BYTES,
    BenchResultsError,
    read_bench_results,
)

RESULTS = Path(__file__).parent / "bench"
COMMANDS = "`spec-decode-exporter plan bench` prints the commands"


def request(tokens=0, context=100, **other):
    return {
        "query_len": 1 + tokens,
        "kv_len": context + 1 + tokens,
        "num_draft_tokens": tokens,
        "chunked": False,
        **other,
    }


def case(median_us=100.0, tokens=0, requests=2, context=100, drafter=None, name="b"):
    rank = {"timing_scope": "target_only"}
    if drafter is not None:
        rank = {"timing_scope": "target_and_drafter", "drafter": {"num_draft_tokens": drafter}}
    return {
        "case": name,
        "requests": [request(tokens, context)] * requests,
        "median_us": median_us,
        "ranks": [rank],
    }


@pytest.fixture
def times(tmp_path):
    """Read cases; return load, draft tokens, ratio, and whether the drafter is included."""

    def read(*cases):
        path = tmp_path / "bench.json"
        path.write_text(json.dumps(cases))
        found = read_bench_results(path)
        return [
            (time.running_requests, time.draft_tokens, pytest.approx(time.ratio), time.with_drafter)
            for time in found
        ]

    return read


@pytest.fixture
def refused(tmp_path):
    def read(content):
        path = tmp_path / "bench.json"
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        with pytest.raises(BenchResultsError) as caught:
            read_bench_results(path)
        return str(caught.value)

    return read


def test_results_in_the_format_of_vllm_are_read():
    found = read_bench_results(RESULTS / "vllm-0.33-eagle3.json")
    assert [(time.running_requests, time.draft_tokens, time.with_drafter) for time in found] == [
        (load, tokens, True) for load in (1, 8) for tokens in (2, 4)
    ]
    assert [time.ratio for time in found] == pytest.approx([0.2412, 0.3825, 0.25, 0.4], abs=1e-4)
    assert [time.context_tokens for time in found] == [2047] * 4
    assert found[0].plain_seconds == pytest.approx(8.025e-3)


def test_passes_of_a_draft_model_are_added_once_for_each_draft_token():
    one, eight = read_bench_results(RESULTS / "vllm-0.33-draft_model.json")
    assert one.with_drafter
    assert one.ratio == pytest.approx(4 * 0.02 * (1 + 1 / 32) + 4 * 801 / 8025, abs=1e-4)
    assert eight.ratio == pytest.approx(4 * 0.02 * (1 + 8 / 32) + 4 * 808 / 8200, abs=1e-4)


def test_steps_are_compared_at_the_same_number_of_requests(times):
    assert times(
        case(100, requests=1), case(300, requests=8), case(150, 4, requests=1), case(330, 4, requests=8)
    ) == [(1, 4, 0.5, False), (8, 4, 0.1, False)]


def test_steps_are_compared_at_the_nearest_context(times, tmp_path):
    assert times(case(100, context=100), case(200, context=1000), case(240, 4, context=900)) == [
        (2, 4, 0.2, False)
    ]
    assert read_bench_results(tmp_path / "bench.json")[0].context_tokens == 1000


def test_a_step_without_drafts_is_plain_only_if_it_times_the_target_model_alone(times):
    assert times(case(500, drafter=4), case(100), case(150, 4, drafter=4)) == [(2, 4, 0.5, True)]


def test_a_step_counts_only_if_it_verifies_as_many_tokens_as_the_drafter_drafts(times):
    assert times(case(100), case(150, 4, drafter=4), case(140, 2, drafter=4)) == [(2, 4, 0.5, True)]


def test_verifying_alone_is_left_out_where_the_drafter_was_timed(times):
    assert times(case(100), case(110, 4), case(150, 4, drafter=4)) == [(2, 4, 0.5, True)]


def test_prefills_and_mixed_batches_are_left_out(times):
    mixed = {**case(900, 4), "requests": [request(4), request()]}
    prefill = {**case(900), "requests": [request(query_len=50)] * 2}
    assert times(case(100), case(110, 4), mixed, prefill) == [(2, 4, 0.1, False)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "has no step of the target model alone without draft tokens; add the results of a run without `--speculative-config`"),
        ([case(drafter=4), case(150, 4, drafter=4)], "has no step of the target model alone without draft tokens"),
        ([case()], "has no step with draft tokens for all requests, as many as the drafter drafts; add"),
        ([case(), case(tokens=4, requests=3)], "of the same number of requests and a similar context"),
        ([case(), case(tokens=4, context=201)], "of the same number of requests and a similar context"),
        ([case(), case(tokens=4, name=f"{DRAFT_PASS}-1")], "has no step with draft tokens"),
        ({}, "the document: Input should be a valid list"),
        ([case(), 7], "[1]: Input should be a valid dictionary"),
        ([case(), case(0.0)], "[1].median_us: Input should be greater than or equal to 0.01"),
        ([case("fast")], "[0].median_us: Input should be a valid number"),
        ([case(float("nan"))], "[0].median_us: Input should be"),
        ([case(float("inf"))], "[0].median_us: Input should be"),
        ([case(requests=0)], "[0].requests: List should have at least 1 item"),
        ([{**case(), "requests": [request(kv_len=True)]}], "[0].requests[0].kv_len: Input should be a valid integer"),
        ([{**case(), "requests": [{"query_len": 1}]}], "[0].requests[0].kv_len: Field required"),
        ([{**case(), "ranks": []}], "[0].ranks: List should have at least 1 item"),
        ([{**case(), "ranks": [{"timing_scope": "all"}]}], "[0].ranks[0].timing_scope: Input should be 'target_only' or"),
    ],
)  # fmt: skip
def test_unusable_results_are_refused_with_place_and_remedy(refused, content, message):
    text = refused(content)
    assert message in text
    assert COMMANDS in text


def test_several_results_that_were_not_joined_are_refused(refused):
    assert refused(b"[]\n[]") == "is not JSON: Extra data in line 2; join several results into one list"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xff", "is no usable result of `vllm bench forward`"),
        (b"[" * 100_000, "is no usable result of `vllm bench forward`: it is nested too deeply"),
        (b"[" + b"{}," * 200_000 + b"{}]", "it has more than 200000 values"),
        (b" " * (MAX_BYTES + 1), "it is larger than 16 MiB"),
    ],
)
def test_hostile_content_is_refused(refused, content, message):
    assert message in refused(content)


def test_content_is_never_repeated(refused):
    assert "hunter2" not in refused([{**case(), "median_us": "hunter2"}])
    assert "hunter2" not in refused(b'["hunter2')


def test_a_pipe_or_a_missing_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BenchResultsError, match=r"cannot be read: .*pipe: it is not a plain file"):
        read_bench_results(tmp_path / "pipe")
    with pytest.raises(BenchResultsError, match=r"cannot be read: .*: No such file"):
        read_bench_results(tmp_path / "none")


@given(
    base=st.floats(1, 1e6), ratio=st.floats(0.5, 10), tokens=st.integers(1, 128), requests=st.integers(1, 8)
)
def test_the_ratio_is_that_of_the_medians(tmp_path_factory, base, ratio, tokens, requests):
    path = tmp_path_factory.getbasetemp() / "ratio.json"
    path.write_text(json.dumps([case(base, 0, requests), case(base * ratio, tokens, requests)]))
    (found,) = read_bench_results(path)
    assert found.ratio == pytest.approx(ratio - 1, abs=1e-9)
    assert (found.running_requests, found.draft_tokens) == (requests, tokens)


class TestAsAConfiguration:
    @pytest.fixture
    def bench(self, tmp_path):
        path = tmp_path / "results" / "bench.json"
        path.parent.mkdir()
        path.write_text(json.dumps([case(100), case(150, 4, drafter=4)]))
        return path

    def test_the_file_is_relative_to_the_configuration(self, read, bench):
        config = read("cost: {bench: results/bench.json}")
        assert config.cost.bench == bench
        assert [time.ratio for time in config.cost.added_times] == [0.5]
        assert read(active_yaml(config)) == config

    def test_a_target_may_have_results_of_its_own(self, read, bench):
        assert bench.exists()
        config = read("targets: [{url: http://a, cost: {bench: results/bench.json}}]")
        assert len(config.targets[0].cost.added_times) == 1

    def test_a_changed_file_is_another_configuration(self, read, bench):
        before = read("cost: {bench: results/bench.json}")
        bench.write_text(json.dumps([case(100), case(160, 4, drafter=4)]))
        assert read("cost: {bench: results/bench.json}") != before

    @pytest.mark.parametrize(
        ("keys", "expected"),
        [
            ("draft_cost_ratio: 0.1", ".bench is a second way to state the cost, beside `draft_cost_ratio`; remove one of the two"),
            ("running_requests: 4", ".running_requests cannot be set beside `bench`, which has its own; remove it"),
            ("fixed_cost_ratio: 0.1", ".fixed_cost_ratio is part of `bench` already; remove it"),
            ("verify_cost_ratio: 0.1", ".verify_cost_ratio is part of `bench` already; remove it"),
        ],
    )  # fmt: skip
    def test_it_is_the_only_statement_of_the_cost(self, mistakes, bench, keys, expected):
        assert bench.exists()
        assert mistakes(f"cost: {{bench: results/bench.json, {keys}}}") == [f"1: cost{expected}"]

    def test_an_unusable_file_is_a_mistake_of_the_configuration(self, mistakes, bench):
        bench.write_text("[]")
        (mistake,) = mistakes("log: {}\ncost:\n  bench: results/bench.json")
        assert mistake.startswith("3: cost.bench has no step of the target model alone")
