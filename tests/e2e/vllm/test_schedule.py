"""A schedule of K by load: the steps of one engine with and without drafts measure the cost.

Four requests at a time are drafted for, five are not, and the load changes every few seconds. A server without
speculation answers the same four: the ratio of the client's mean times is the truth.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from clients import PROMPTS, Body, Times, send, send_until
from vllm_server import DEV_MODE, QUIET, SPECULATION, models, vllm
from watch import COST, SPEEDUP, Watch, bounds, engine, said, watch

K, DRAFTED_UP_TO = 4, 4
SCHEDULE = [[1, DRAFTED_UP_TO, K], [DRAFTED_UP_TO + 1, 16, 0]]
TOKENS = 700
"""Of each answer: more than 10 s without drafts, and the same contexts with and without."""
MIXED = (3, 5, 4, 6, 4, 5, 3, 6) * 4
"""Requests at a time, round after round."""
MIXED_TOKENS = 200
"""Of each of their answers: some seconds."""
WINDOW = "2m"
WHOLE_COVERAGE = 0.99
PAYS, LOSES = {"marginal", "healthy", "optimal"}, {"harmful"}


def test_the_cost_measured_on_a_server_with_a_schedule_contains_the_truth(remark):
    deep = {"model": "deep", "more_environment": DEV_MODE}
    with vllm("schedule-plain", *QUIET, **deep) as server:
        send(server.url, answers(DRAFTED_UP_TO, each=1))
        plain = send(server.url, answers(DRAFTED_UP_TO, each=3))
    with (
        vllm("schedule", *QUIET, *scheduled(), **deep) as server,
        watch("schedule", server.url, window=WINDOW) as watching,
    ):
        watching.wait_until_up()
        mixed = [send(server.url, answers(each, each=1, tokens=MIXED_TOKENS)) for each in MIXED]
        measured = watching.settled().find(COST, source="measured")
        rounds = [answers(DRAFTED_UP_TO, each=3)] * 20
        send_until(lambda: drafts_in_every_step(watching), server.url, rounds)
        drafting = send_until(lambda: is_measured(watching), server.url, rounds)
        page, told = watching.settled(), engine(watching)
    truth = plain.per_token / drafting.per_token
    low, _, high = bounds(page, SPEEDUP, WINDOW)
    for load in sorted(set(MIXED)):
        times = sum((its for each, its in zip(MIXED, mixed, strict=True) if each == load), Times())
        remark(f"mixed, at {load}: {times}")
    remark(f"K = 0 at 4: {plain}")
    remark(f"K = {K} at 4: {drafting}")
    remark(f"truth: {truth:.3f} a token; {told['verdict']}; {said(page)}")
    assert measured
    assert low <= truth <= high
    assert told["verdict"] not in PAYS or truth > 1
    assert told["verdict"] not in LOSES or truth < 1


def scheduled() -> Sequence[str]:
    """Speculate with the draft model of the deep pair, by load."""
    settings = {"method": "draft_model", "model": str(models() / "deep-draft"), "num_speculative_tokens": K}
    return (SPECULATION, json.dumps({**settings, "num_speculative_tokens_per_batch_size": SCHEDULE}))


def answers(workers: int, *, each: int, tokens: int = TOKENS) -> list[list[Body]]:
    """Return long answers, the same ones for each worker: all run for as long without drafts."""
    return [
        [
            {"prompt": PROMPTS[(worker + number) % len(PROMPTS)], "max_tokens": tokens}
            for number in range(each)
        ]
        for worker in range(workers)
    ]


def drafts_in_every_step(watching: Watch) -> bool:
    """Return whether the steps without drafts have left the window."""
    return watching.page().sum("spec_decode_coverage_ratio", window=WINDOW) > WHOLE_COVERAGE


def is_measured(watching: Watch) -> bool:
    """Return whether the speed-up has bounds by the cost measured on this engine."""
    page = watching.page()
    return bool(page.find(COST, source="measured") and page.find(f"{SPEEDUP}_lower", window=WINDOW))
