"""Commands of ``vllm bench forward``, and what the exporter reads of their results."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest

from spec_decode_exporter.config.bench_results import read_bench_results
from spec_decode_exporter.reports.plan.bench_commands import (
    METHODS,
    OWN_DRAFT,
    TIMED,
    BenchCommandsError,
    BenchPlan,
    bench_commands,
)

CASE = re.compile(r"([\w-]+)=(\d+)\*(\d+)@(\d+)(?::(\d+))?")
"""vLLM's syntax of a case: NAME=N*Q@K:D."""
DRAFTS = {*OWN_DRAFT, "draft_model"}


def plan(method="eagle3", **other):
    known = {
        "target": "org/target model",
        "method": method,
        "draft": "org/draft" if method in DRAFTS else None,
        "tokens": (2, 4),
        "loads": (1, 8, 64),
        "context": 1000,
        "ranks": 1,
    }
    return BenchPlan(**known | other)


def lines(script):
    """Return the words of each command."""
    whole = script.replace("\\\n", "")
    return [shlex.split(line) for line in whole.splitlines() if not line.startswith("#")]


def option(words, name):
    return words[words.index(name) + 1] if name in words else None


def results(words):
    """Return the results of a run, with the keys of vLLM."""
    config = json.loads(option(words, "--speculative-config") or "null")
    drafts = config is not None and "--exclude-drafter" not in words
    longest = int(option(words, "--max-model-len"))
    for place, word in enumerate(words):
        if word != "--case":
            continue
        name, requests, query, kv, tokens = CASE.fullmatch(words[place + 1]).groups(default="0")
        number = config["num_speculative_tokens"] if config else 0
        assert int(tokens) <= number
        assert int(kv) + (number + 1 if drafts else 0) <= longest
        request = {"query_len": int(query), "kv_len": int(kv), "num_draft_tokens": int(tokens)}
        rank = {"timing_scope": "target_and_drafter" if drafts else "target_only"}
        if drafts:
            rank["drafter"] = {"num_draft_tokens": number}
        yield {
            "case": name,
            "requests": [request] * int(requests),
            "median_us": 100.0 + 10 * int(tokens),
            "ranks": [rank],
        }


@pytest.mark.parametrize("method", METHODS)
def test_the_results_of_the_printed_commands_can_be_read(method, tmp_path):
    *runs, join = lines(bench_commands(plan(method)))
    for words in runs:
        (tmp_path / option(words, "--output-json")).write_text(json.dumps(list(results(words))))
    command, file = join[:-2], join[-1]
    assert join[-2] == ">"
    with (tmp_path / file).open("w") as joined:
        subprocess.run([sys.executable, *command[1:]], cwd=tmp_path, stdout=joined, check=True)
    found = read_bench_results(tmp_path / file)
    assert [(time.running_requests, time.draft_tokens) for time in found] == [
        (load, tokens) for load in (1, 8, 64) for tokens in (2, 4)
    ]
    assert {time.context_tokens for time in found} == {999}
    assert all(time.with_drafter == (method in {*TIMED, "draft_model"}) for time in found)


def test_every_number_of_tokens_of_a_timed_drafter_has_a_run_of_its_own():
    configs = [
        json.loads(option(words, "--speculative-config") or "null")
        for words in lines(bench_commands(plan()))[:-1]
    ]
    assert configs == [
        None,
        {"method": "eagle3", "num_speculative_tokens": 2, "model": "org/draft"},
        {"method": "eagle3", "num_speculative_tokens": 4, "model": "org/draft"},
    ]


def test_a_draft_model_is_timed_alone():
    plain, verify, alone, _ = lines(bench_commands(plan("draft_model")))
    assert [option(words, "--model") for words in (plain, verify, alone)] == [
        "org/target model",
        "org/target model",
        "org/draft",
    ]
    assert "--exclude-drafter" in verify
    assert [case["case"] for case in results(alone)] == ["draft-pass-b1", "draft-pass-b8", "draft-pass-b64"]


def test_the_plain_run_has_no_speculation_and_exact_contexts():
    plain = lines(bench_commands(plan()))[0]
    assert plain[:3] == ["vllm", "bench", "forward"]
    assert "--speculative-config" not in plain
    assert option(plain, "--kv-len-jitter") == "0"
    assert option(plain, "--case") == "b1=1*1@1000"


def test_several_gpus_are_started_by_torchrun():
    plain = lines(bench_commands(plan(ranks=4)))[0]
    assert plain[:4] == ["torchrun", "--nproc-per-node=4", "-m", "vllm.entrypoints.cli.main"]
    assert option(plain, "--tensor-parallel-size") == "4"


def test_a_drafter_that_vllm_does_not_time_is_named():
    assert "# vLLM does not time the drafter of ngram" in bench_commands(plan("ngram"))
    assert "does not time" not in bench_commands(plan("mtp"))


@pytest.mark.parametrize(
    ("method", "draft", "message"),
    [
        ("eagle3", None, "eagle3 needs the draft model: add --draft MODEL"),
        ("draft_model", None, "draft_model needs the draft model: add --draft MODEL"),
        ("ngram", "org/draft", "ngram searches the text and has no draft; leave out --draft"),
    ],
)
def test_a_draft_that_does_not_fit_the_method_is_refused(method, draft, message):
    with pytest.raises(BenchCommandsError, match=message):
        bench_commands(plan(method, draft=draft))
