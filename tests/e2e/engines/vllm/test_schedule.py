"""A schedule with a band of load without drafts: vLLM keeps it, and its steps measure the cost of drafting.

Three and five requests at a time are drafted for, four are not. A server without speculation answers the same
five, in turns: the ratio of the client's mean times is the truth. The drafter's first pass runs in the band
too, and its size is unknown here, so the bounds are wide.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from clients import PROMPTS, Body, Times, send, send_until
from vllm_server import DEV_MODE, QUIET, SPECULATION, models, vllm
from watch import COST, SPEEDUP, Watch, bounds, engine, said, watch

K, BAND, DRAFTED = 4, 4, 5
SCHEDULE = [[1, BAND - 1, K], [BAND, BAND, 0], [BAND + 1, 16, K]]
TOKENS = 300  # of each answer; all workers have answers of equal length, so they end together
ROUNDS = 60  # most rounds until a condition is met, of some seconds each
WINDOW = "3m"
MOSTLY = 0.9  # share of the steps that leaves room for the prompts and the ends of a round
PAYS, LOSES = {"marginal", "healthy", "optimal"}, {"harmful"}


def test_a_band_without_drafts_is_kept_and_measures_the_cost(remark):
    with (
        vllm("schedule-plain", *QUIET, more_environment=newest()) as other,
        vllm("schedule", *QUIET, *scheduled(), more_environment=DEV_MODE | newest()) as server,
        watch("schedule", server.url, window=WINDOW) as watching,
    ):
        watching.wait_until_up()
        for each in (other, server):
            send(each.url, answers(DRAFTED, tokens=50))
        shares = {load: drafting_share(watching, server.url, load) for load in (BAND - 1, BAND, BAND + 1)}
        mixed = [answers(load, tokens=60) for load in (3, 4, 5, 4) * ROUNDS]
        send_until(lambda: has_cost(watching), server.url, mixed)
        plain = drafting = Times()
        for _ in range(ROUNDS):  # in turns, so that a machine that is busy otherwise slows both
            plain += send(other.url, answers(DRAFTED))
            drafting += send(server.url, answers(DRAFTED))
            if is_measured(watching):
                break
        page, told = watching.settled(), engine(watching)
    truth = plain.per_token / drafting.per_token
    remark(f"share of the steps with a draft by load: {shares}")
    remark(f"K = 0 at {DRAFTED}: {plain}")
    remark(f"K = {K} at {DRAFTED}: {drafting}")
    remark(f"truth: {truth:.3f} a token; {told['verdict']}; {said(page)}")
    assert shares[BAND] < 1 - MOSTLY < MOSTLY < min(shares[BAND - 1], shares[BAND + 1])
    assert page.find(COST, source="measured")
    low, _, high = bounds(page, SPEEDUP, WINDOW)
    assert low <= truth <= high
    assert told["verdict"] not in PAYS or truth > 1
    assert told["verdict"] not in LOSES or truth < 1


def newest() -> dict[str, str]:
    """Return the environment for vLLM 0.33 beside the CPU package, if it is there."""
    folder = Path(os.environ.get("VLLM_RELEASES", ".e2e/releases")).absolute() / "0.33.0"
    return {"PYTHONPATH": str(folder)} if folder.is_dir() else {}


def scheduled() -> Sequence[str]:
    """Speculate with the draft model of the small pair, but for one load."""
    settings = {"method": "draft_model", "model": str(models() / "draft"), "num_speculative_tokens": K}
    return (SPECULATION, json.dumps({**settings, "num_speculative_tokens_per_batch_size": SCHEDULE}))


def answers(workers: int, *, each: int = 1, tokens: int = TOKENS) -> list[list[Body]]:
    """Return answers of equal length, so that all of a worker's requests begin and end with the others'."""
    return [
        [
            {"prompt": PROMPTS[(worker + number) % len(PROMPTS)], "max_tokens": tokens}
            for number in range(each)
        ]
        for worker in range(workers)
    ]


def drafting_share(watching: Watch, url: str, load: int) -> float:
    """Send some requests at a time; return the share of their steps that had a draft."""
    before = watching.settled()
    send(url, answers(load))
    after = watching.settled()
    drafts, steps = (
        after.sum(name) - before.sum(name)
        for name in ("spec_decode_drafts_total", "spec_decode_decode_steps_total")
    )
    return drafts / steps


def has_cost(watching: Watch) -> bool:
    """Return whether the cost is measured on this engine."""
    return bool(watching.page().find(COST, source="measured"))


def is_measured(watching: Watch) -> bool:
    """Return whether almost all steps draft now, and the speed-up has bounds by the measured cost."""
    page = watching.page()
    coverage = page.sum("spec_decode_coverage_ratio", window=WINDOW)
    return coverage > MOSTLY and has_cost(watching) and bool(page.find(f"{SPEEDUP}_lower", window=WINDOW))
