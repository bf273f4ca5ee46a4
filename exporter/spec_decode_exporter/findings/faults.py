"""Faults and obstacles: findings that an operator should act on, in the order in which they are shown."""

from __future__ import annotations

from functools import partial
from typing import Final

from spec_decode_exporter.analysis.verdict import State, Verdict
from spec_decode_exporter.drops.sums import DropKind
from spec_decode_exporter.figures.estimate import ratio
from spec_decode_exporter.figures.quantile import quantile
from spec_decode_exporter.findings.finding import (
    FindingContext,
    Found,
    Rules,
    Severity,
    above,
    accepting,
    always,
    below,
    covered,
    drafting,
    found,
)
from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.window.poll import Check

DEAD: Final = 0.05
"""Acceptance at the first position below which a drafter does not work, for SpecDecodeDrafterDead too.

Most reports of broken drafters show 0.01 to 0.02.
"""
MIN_LOOKED_UP: Final = 10_000
"""Prompt tokens that are many enough for at least one hit: several blocks of any size."""
MIN_REQUESTS: Final = 20
"""Requests that are many enough for at least one common beginning, such as a system prompt."""
MIN_HITS: Final = 0.01
"""Share of prompt tokens from the cache below which a baseline had no hits to lose."""
TAIL_OBSERVATIONS: Final = 100
"""Observations that a 99th percentile needs; of fewer it is only the slowest one."""
WAYS_TO_MEASURE: Final = "To know it, cheapest first: let the exporter read a Prometheus that has this server from before it speculated (baseline.prometheus); wait until the engine does not draft for ten minutes under load, or restart it without speculation for ten minutes, and the exporter measures it; serve one replica without speculation as the baseline of an experiment; or configure the step times with and without speculation at this load (cost.loads)."
"""Ways to know the cost of drafting."""
_BROKEN: Final = {
    Check.POSITIONS_ADD_UP: "In two successive polls the accepted tokens of all positions did not add up to the accepted tokens: do not trust figures by position. The exporter's log has the numbers (check_broken).",
    Check.POSITIONS_DECREASE: "In two successive polls a position had more accepted tokens than the one before it, or than there were drafts: do not trust figures by position. The exporter's log has the numbers (check_broken).",
    Check.ACCEPTED_WITHIN_DRAFTED: "In two successive polls more tokens were accepted than drafted: do not trust the acceptance rate. The exporter's log has the numbers (check_broken).",
    Check.DRAFTED_WITHIN_CONFIGURED: "In two successive polls more tokens were drafted than the positions allow: if the number of draft tokens is configured for this target, correct it. The exporter's log has the numbers (check_broken).",
    Check.ONE_SERVER: "Creation times of the counters alternate: several servers answer at this address, and their counters mix. Configure each server as its own target.",
}

FAULTS: Final = Rules(Severity.WARNING)


def _broken(check: Check, context: FindingContext) -> Found | None:
    """Return the finding of a broken identity of the counters."""
    return Found(_BROKEN[check], {}) if check in context.broken else None


for _check in Check:
    FAULTS.conditions[f"broken_{_check}"] = always, partial(_broken, _check)


@FAULTS.finding(always)
def sudden_drop(context: FindingContext) -> Found | None:
    text = "Acceptance dropped at {began:clock}, {age:ago}: the acceptance length was {baseline:.2f} tokens, and is {length:.2f} now. Look for a change at that time: the requests, their temperature, a release."
    return _live_drop(context, DropKind.SUDDEN, text)


@FAULTS.finding(always)
def drafting_drop(context: FindingContext) -> Found | None:
    text = "Since {began:clock}, {age:ago}, fewer decode steps have a draft: a step gave {baseline:.2f} tokens, and gives {length:.2f} now. An n-gram or suffix drafter drafts only if text repeats itself: look for other requests since that time."
    return _live_drop(context, DropKind.DRAFTING, text)


def _live_drop(context: FindingContext, kind: DropKind, text: str) -> Found | None:
    """Return the finding of a drop that began at a moment."""
    drop = context.drops.live.get(kind)
    if drop is None:
        return None
    lengths = {"baseline": drop.baseline_length, "length": drop.length}
    return Found(text, {**lengths, "began": context.known.wall - drop.age, "age": drop.age})


@FAULTS.finding(always)
def slow_drop(context: FindingContext) -> Found | None:
    text = "Acceptance has declined for hours: the acceptance length is {length:.2f} tokens now, and was {baseline:.2f} in the last half hour. Some server defects cause this until a restart."
    baseline, length = context.drops.baseline_length, context.evaluation.windows[0].acceptance_length_tokens
    if not context.drops.dropped.get(DropKind.SLOW) or baseline is None or length is None:
        return None
    return Found(text, {"baseline": baseline, "length": length})


@FAULTS.finding(covered)
def stalled(context: FindingContext) -> Found | None:
    text = "The engine drafted before, and did not for {seconds:.0f} s and more than {least_steps:.0f} decode steps. Read the server's log; a restart of the server makes it draft again."
    if context.evaluation.state is not State.STALLED:
        return None
    return Found(text, {"seconds": context.its.window.seconds, "least_steps": context.policy.min_drafts})


@FAULTS.finding(drafting)
def drafter_dead(context: FindingContext) -> Found | None:
    text = "The first draft token was accepted in {acceptance:.3f} of {drafts:.0f} drafts, below {threshold:g}: the drafter does not work and only costs time. Check that it matches this target model (revision, tokenizer, quantisation) and that prompts fit into its context; until then, disable speculation."
    # Without counted positions, all accepted tokens per draft are compared: the first position has fewer.
    first = context.acceptance(0)
    share = ratio(context.its.total.accepted_tokens, context.drafts) if first is None else first
    return found(text, below("acceptance", share, DEAD), drafts=context.drafts)


@FAULTS.finding(accepting)
def repetition(context: FindingContext) -> Found | None:
    text = "For {seconds:.0f} s position 0 was accepted in {acceptance:.3f} of the drafts, at least {threshold:g}. This is typical of a model that repeats itself without end, or of synthetic acceptance: read some of the answers."
    first, threshold = context.acceptance(0), context.policy.findings.repetition_first_position
    if first is None or first < threshold or not context.evaluation.is_whole:
        return None
    values = {"acceptance": first, "threshold": threshold}
    return Found(text, {**values, "seconds": context.its.window.seconds})


@FAULTS.finding(accepting)
def cliff(context: FindingContext) -> Found | None:
    text = "Of the drafts that reach position {position:.0f}, {acceptance:.3f} are accepted there, compared with {acceptance_before:.3f} at position {position_before:.0f}: the decay is larger than drafters usually have. Draft {position:.0f} tokens, or find the cause (a drafter trained for fewer tokens, its maximum context)."
    positions, least = context.its.positions, context.policy.min_drafts
    for position in range(1, context.tokens):
        (here, reached), before = positions.counts[position], ratio(*positions.counts[position - 1])
        if before is None or not reached or reached < least:
            continue
        # As many drafts as can have ended before the position are no evidence.
        has_known_lengths = positions.drafts_with(position) is not None
        ended = 0 if has_known_lengths else context.drafts - positions.least_drafted(position)
        if here < context.policy.findings.cliff_ratio * before * (reached - ended):
            earlier = {"position_before": position - 1, "acceptance_before": before}
            return Found(text, {"position": position, "acceptance": here / reached, **earlier})
    return None


@FAULTS.finding(accepting)
def below_expectation(context: FindingContext) -> Found | None:
    text = "Of the drafts that reach position {position:.0f}, {acceptance:.3f} are accepted there, at most {upper:.3f}. The drafter's training report expects {expected:.3f} (speculative.expected_positions). Likely causes: another revision of the drafter or the target model, another tokenizer or chat template, quantisation, a higher temperature, prompts unlike the training data. Compare each with the training."
    # It needs no earlier measurement: in speculators' issue 613 the first draft token was right in 0.87 of the
    # cases in training, and in 0.04 to 0.07 when served. Each position is compared given that the tokens before
    # it are accepted, so a weak first position does not lower the next ones.
    positions, gap = context.its.positions, context.policy.findings.below_expectation
    common = positions.common if positions.are_known else 0
    for position, expected in enumerate(context.known.speculation.expected_positions[:common]):
        reached, its = positions.counts[position][1] or 0, context.its.conditional_bounds(position)
        if its is None or reached < context.policy.min_drafts:
            continue
        if its.value <= expected - gap and its.upper < expected:
            acceptance = {"acceptance": its.value, "upper": its.upper}
            return Found(text, {"position": position, **acceptance, "expected": expected})
    return None


@FAULTS.finding(drafting)
def above_crossover(context: FindingContext) -> Found | None:
    text = "{running:.1f} requests run, and speculation does not pay above {crossover:.1f}. Draft nothing in large batches (num_speculative_tokens_per_batch_size), or spread the requests over more servers."
    running, crossover = context.its.drafting_requests, context.evaluation.crossover
    if running is None or crossover is None or running <= crossover:
        return None
    return Found(text, {"running": running, "crossover": crossover})


@FAULTS.finding(drafting)
def no_depth_pays(context: FindingContext) -> Found | None:
    text = "A draft token costs {draft_cost:.3g} decode steps, and a draft {fixed_cost:.3g} in addition: no number of draft tokens is faster than none. If these costs are right, disable speculation."
    cost, depths, recommended = context.its.cost, context.its.depths, context.evaluation.recommended
    if cost is None or recommended is None or recommended.tokens:
        return None
    if depths is not None and any(depths.pays(cost.low, tokens + 1) for tokens in range(len(depths))):
        return None
    return Found(text, {"draft_cost": cost.low.token, "fixed_cost": cost.low.step})


@FAULTS.finding(drafting)
def unclear_cost(context: FindingContext) -> Found | None:
    text = f"The speed-up is between {{lower:.2f}} and {{upper:.2f}}, and the cost of drafting decides on which side of 1. Speculation pays if a draft token costs less than {{break_even:.3g}} decode steps; it costs {{lowest_cost:.3g}} to {{highest_cost:.3g}}. {WAYS_TO_MEASURE}"
    work, cost, speedup = context.its.work, context.its.possible_cost, context.its.speedup_range
    if context.evaluation.verdict is not Verdict.UNCLEAR or work is None or speedup is None:
        return None
    bounds, fixed = context.its.break_even_cost_bounds, cost.guess.step * work.fixed_steps(cost.guess)
    even = ratio(work.tokens - work.steps - fixed, work.draft_tokens) if bounds is None else bounds.value
    if even is None:
        return None
    costs = {"lowest_cost": cost.low.token, "highest_cost": cost.high.token}
    speedups = {"lower": speedup.estimate.lower, "upper": speedup.estimate.upper}
    return Found(text, {**speedups, "break_even": max(even, 0.0), **costs})


@FAULTS.finding(covered)
def kv_pressure(context: FindingContext) -> Found | None:
    text = "{usage:.3f} of the KV cache is in use, more than {threshold:g}, and {preemptions:.0f} requests were preempted in {seconds:.0f} s. A draft model takes its memory from the cache: give vLLM more (gpu_memory_utilization), run fewer requests at a time (max_num_seqs), or draft without a model."
    window, preemptions = context.its.window, context.its.total.preemptions
    usage = above("usage", window.mean.kv_cache_usage_ratio, context.policy.findings.kv_cache_usage)
    return found(text, usage, preemptions=preemptions, seconds=window.seconds) if preemptions else None


@FAULTS.finding(drafting)
def prefix_cache_lost(context: FindingContext) -> Found | None:
    text = "{requests:.0f} requests looked up {queries:.0f} prompt tokens in the prefix cache in {seconds:.0f} s, and found none. With some hybrid models speculation disables the prefix cache without a warning (vLLM issue 54360), and each prompt is computed again. To confirm, send one long prompt twice. If the second first token is as slow as the first one, update vLLM, set --prefix-cache-retention-interval to the block size, or use another method. If it is fast, only the counter is wrong. Prompts without a common beginning have no hits either."
    total, baseline = context.its.total, context.known.request_baseline
    queries, requests = total.prefix_cache_queries, total.first_tokens
    # vLLM counts no look-ups if the prefix cache is disabled.
    if total.prefix_cache_hits != 0 or queries is None or requests is None:
        return None
    hits = None if baseline is None else baseline.prefix_hit_ratio
    if queries < MIN_LOOKED_UP or requests < MIN_REQUESTS or (hits is not None and hits < MIN_HITS):
        return None
    values = {"requests": requests, "queries": queries, "seconds": context.its.window.seconds}
    if hits is not None:
        text += " Without speculation {hits_without:.3f} of the prompt tokens were found."
        values["hits_without"] = hits
    first_token = context.its.time_to_first_token_seconds
    if baseline is not None and first_token is not None:
        text += (
            " The mean time to first token is {first_token:.3g} s, without it {first_token_without:.3g} s."
        )
        values |= {"first_token": first_token, "first_token_without": baseline.first_token_seconds}
    return Found(text, values)


@FAULTS.finding(covered)
def token_time_tail(context: FindingContext) -> Found | None:
    text = "One request in a hundred waits {p99:.3g} s or longer for a token, {ratio:.1f} times the median of {p50:.3g} s. Look for requests whose drafts are rejected, for preemptions, and for long prompts beside them (max_num_batched_tokens)."
    return tail(context, Latency.TIME_PER_OUTPUT_TOKEN, text)


def tail(context: FindingContext, latency: Latency, text: str) -> Found | None:
    """Return the finding that the median and the 99th percentile of a latency are far apart."""
    buckets = context.evaluation.latencies.get(latency)
    if buckets is None or not buckets.counts or buckets.counts[-1] < TAIL_OBSERVATIONS:
        return None
    median, slow = quantile(0.5, buckets), quantile(0.99, buckets)
    times = ratio(slow, median)
    if slow is None or median is None or times is None or times <= context.policy.findings.tail_ratio:
        return None
    return Found(text, {"p50": median, "p99": slow, "ratio": times})
