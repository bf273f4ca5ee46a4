"""A schedule with a band of load without drafts: vLLM keeps it, and its steps measure the cost of drafting.

Three and five requests at a time are drafted for, four are not. A server without speculation answers the same
five, in turns: the ratio of the client's mean times is the truth. The drafter's first pass runs in the band
too, and its size is unknown here, so the bounds are wide.
"""

from __future__ import annotations

from clients import PROMPTS, Times, send, send_until
from vllm_server import DEV_MODE, QUIET, RELEASES, draft_model, vllm
from watch import COST, SPEEDUP, Watch, bounds, said, watch

K, BAND, DRAFTED = 4, 4, len(PROMPTS)
SCHEDULE = [[1, BAND - 1, K], [BAND, BAND, 0], [BAND + 1, 16, K]]
# A request of each worker. All answers have equal length, so they begin and end together.
ANSWERS, SHORT_ANSWERS = (
    [[{"prompt": prompt, "max_tokens": tokens}] for prompt in PROMPTS] for tokens in (300, 60)
)
ROUNDS = 60  # most rounds until a condition is met, of some seconds each
WINDOW = "3m"
MOSTLY = 0.9  # share of the steps that leaves room for the prompts and the ends of a round
HAS_COST = {COST: {"source": "measured"}}
HAS_BOUNDS = {**HAS_COST, f"{SPEEDUP}_lower": {"window": WINDOW}}
NEWEST = {"PYTHONPATH": str(RELEASES / "0.33.0")} if (RELEASES / "0.33.0").is_dir() else {}
"""Environment for vLLM 0.33 beside the CPU package, if it is there."""
PAYS, LOSES = {"marginal", "healthy", "optimal"}, {"harmful"}


def test_a_band_without_drafts_is_kept_and_measures_the_cost(remark):
    scheduled = draft_model(K, num_speculative_tokens_per_batch_size=SCHEDULE)
    with (
        vllm("schedule-plain", *QUIET, more_environment=NEWEST) as other,
        vllm("schedule", *QUIET, *scheduled, more_environment=DEV_MODE | NEWEST) as server,
        watch("schedule", server.url, window=WINDOW) as watching,
    ):
        for each in (other, server):
            send(each.url, SHORT_ANSWERS)
        shares = {load: drafting_share(watching, server.url, load) for load in (BAND - 1, BAND, BAND + 1)}
        mixed = [SHORT_ANSWERS[:load] for load in (3, 4, 5, 4) * ROUNDS]
        send_until(lambda: watching.shows(HAS_COST), server.url, mixed)
        plain = drafting = Times()
        for _ in range(ROUNDS):  # in turns, so that a machine that is busy otherwise slows both
            plain += send(other.url, ANSWERS)
            drafting += send(server.url, ANSWERS)
            coverage = watching.page().sum("spec_decode_coverage_ratio", window=WINDOW)
            if coverage > MOSTLY and watching.shows(HAS_BOUNDS):
                break
        page, told = watching.settled(), watching.api("snapshot")["engines"][0]
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


def drafting_share(watching: Watch, url: str, load: int) -> float:
    """Send some requests at a time; return the share of their steps that had a draft."""
    before = watching.settled()
    send(url, ANSWERS[:load])
    after = watching.settled()
    drafts, steps = (
        after.sum(name) - before.sum(name)
        for name in ("spec_decode_drafts_total", "spec_decode_decode_steps_total")
    )
    return drafts / steps
