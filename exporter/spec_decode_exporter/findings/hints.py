"""Hints: findings that help to read the verdict, in the order in which they are shown.

Rules of thumb come first, then the reasons for an uncertain verdict.
"""

from __future__ import annotations

from typing import Final

from spec_decode_exporter.analysis.cost import UNSTATED_LOAD, Cost, CostSource, is_near
from spec_decode_exporter.analysis.verdict import NOT_PAYING, State
from spec_decode_exporter.analysis.window_evaluation import MIN_VERDICT_REQUESTS
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS, ratio
from spec_decode_exporter.findings.faults import tail
from spec_decode_exporter.findings.finding import (
    FindingContext,
    Found,
    Rules,
    Severity,
    Values,
    above,
    accepting,
    below,
    covered,
    drafting,
    found,
)
from spec_decode_exporter.scrape.page.engine_table import Latency

FLIPPING: Final = 0.25
"""Share of the polls in which K changed. Load that moves from one range to another changes it once."""
TRIMMED: Final = 0.05
"""Share of discarded tokens above which the acceptance length misleads."""
LOSSY_REJECTION: Final = frozenset({"fly"})
"""vLLM's rejection methods that accept tokens which the target model would not generate.

``standard`` and ``block`` are exact. ``synthetic`` is for benchmarks: it fixes the acceptance.
"""
HIGH_FIRST_POSITION: Final = 0.90
LOW_RATE: Final = 0.40
HIGH_RATE: Final = 0.60
"""Common rules of thumb, independent of the method and its cost."""
_COVERAGE: Final = "{coverage:.3f} of the decode steps had a draft, less than {threshold:g}. The acceptance length of {length:.2f} covers only these steps. Use the effective {effective_tokens:.2f} tokens per step instead."

HINTS: Final = Rules(Severity.INFO)


@HINTS.finding(covered)
def decode_step_tail(context: FindingContext) -> Found | None:
    text = "One decode step in a hundred takes {p99:.3g} s or longer, {ratio:.1f} times the median of {p50:.3g} s. Usually a long prompt shares the step: limit what one step may take in (max_num_batched_tokens)."
    return tail(context, Latency.DECODE_STEP, text)


@HINTS.finding(drafting)
def schedule_flips(context: FindingContext) -> Found | None:
    text = "The schedule changed the number of draft tokens in {changes:.0f} of {polls:.0f} polls: {running:.1f} requests run, and from {boundary:.0f} on it drafts {above:.0f} instead of {below:.0f}. Steps of changing length can cost throughput (vLLM issue 49548). Move the boundary away from this load, to where both numbers are about as fast: `spec-decode-exporter recommend` prints it."
    schedule, running = context.known.speculation.schedule, context.its.window.mean.running_requests
    boundaries, changed = schedule.firsts[1:], context.its.schedule_changes
    if not boundaries or not context.known.drafts_in_every_step or changed is None or running is None:
        return None
    changes, polls = changed
    if changes < FLIPPING * polls:
        return None
    boundary = min(boundaries, key=lambda first: abs(first - running))
    sides = {"below": schedule.at(boundary - 1) or 0, "above": schedule.at(boundary) or 0}
    counts = {"changes": changes, "polls": polls, "running": running}
    return Found(text, {**counts, "boundary": boundary, **sides})


@HINTS.finding(drafting)
def drafting_paused(context: FindingContext) -> Found | None:
    text = f"{_COVERAGE} This method drafts in every step, so drafting paused for a part of the window: it stalled, or the schedule has no draft for some batch sizes (num_speculative_tokens_per_batch_size). Find the time when drafts stop, and read the server's log."
    return found(text, _coverage(context)) if context.known.drafts_in_every_step else None


@HINTS.finding(drafting)
def low_coverage(context: FindingContext) -> Found | None:
    text = f"{_COVERAGE} An n-gram or suffix drafter drafts only if text repeats itself; if that is rare here, try another method."
    return None if context.known.drafts_in_every_step else found(text, _coverage(context))


def _coverage(context: FindingContext) -> Values | None:
    """Return the share of steps with a draft if it is low; None if a schedule pauses drafting."""
    values = below("coverage", context.its.coverage_ratio, context.policy.findings.low_coverage)
    length, effective = context.its.acceptance_length_tokens, context.its.effective_tokens_per_step
    if context.known.speculation.schedule.pauses or values is None or length is None or effective is None:
        return None
    return {**values, "length": length, "effective_tokens": effective}


@HINTS.finding(drafting)
def lossy_rejection(context: FindingContext) -> Found | None:
    text = "The server's rejection sampling is lossy (rejection_sample_method fly): it accepts draft tokens that the target model would not generate. Acceptance and speed-up include them, and the text differs from the target model's. Compare the quality of the answers before you compare speeds."
    return Found(text, {}) if context.known.speculation.rejection_method in LOSSY_REJECTION else None


@HINTS.finding(accepting)
def trimmed_tokens(context: FindingContext) -> Found | None:
    text = "{lost:.0f} of {counted:.0f} tokens, {share:.3f}, were discarded: they were accepted beyond the end of an answer. The acceptance length is too high by them; use the effective tokens per step instead. With such short answers, draft fewer tokens."
    total = context.its.total
    if total.decode_steps is None or total.accepted_tokens is None or total.decoded_tokens is None:
        return None
    # A step yields one token and the accepted ones of its draft; fewer tokens were generated.
    counted = total.decode_steps + total.accepted_tokens
    lost, share = counted - total.decoded_tokens, ratio(counted - total.decoded_tokens, counted)
    values = {"lost": lost, "counted": counted, "share": share or 0.0}
    return Found(text, values) if share is not None and share > TRIMMED else None


@HINTS.finding(drafting)
def faster_method(context: FindingContext) -> Found | None:
    text = "Another arm of the experiment serves this model by another method {speedup:.2f} times as fast as the baseline, at least {speedup_lower:.2f}; this one is {own_speedup:.2f} times as fast, at most {own_speedup_upper:.2f}. Switch to that method, on this engine first."
    faster = context.known.faster_method
    if faster is None:
        return None
    other = {"speedup": faster.speedup.value, "speedup_lower": faster.speedup.lower}
    return Found(text, {**other, "own_speedup": faster.own.value, "own_speedup_upper": faster.own.upper})


@HINTS.finding(drafting)
def another_depth(context: FindingContext) -> Found | None:
    text = "{recommended_tokens:plural draft token} instead of {tokens:.0f} should make decoding {speedup:.2f} times as fast as without speculation, instead of {present_speedup:.2f} times (num_speculative_tokens). It is a hypothesis: try it and compare."
    its, depth = context.its, context.evaluation.recommended
    if its.cost is None or its.depths is None or depth is None or not its.is_worth_a_change(depth.tokens):
        return None
    tokens = {"tokens": context.tokens, "recommended_tokens": depth.tokens}
    present = its.depths.speedup(its.cost.guess, context.tokens)
    return Found(text, {**tokens, "speedup": depth.speedup, "present_speedup": present})


@HINTS.finding(accepting)
def low_first_position(context: FindingContext) -> Found | None:
    text = "Position 0 is accepted in {acceptance:.3f} of the drafts, less than {threshold:g}: the very next token is often another one. Look at the requests first: a high temperature and unusual prompts cause this. If they are as intended, use a drafter trained for this target model and these texts; another number of draft tokens does not help."
    threshold = context.policy.findings.low_first_position
    return found(text, below("acceptance", context.acceptance(0), threshold))


@HINTS.finding(accepting)
def high_first_position(context: FindingContext) -> Found | None:
    text = "Position 0 is accepted in {acceptance:.3f} of the drafts, more than {threshold:g}: the drafter fits the target model well. No action is needed."
    return found(text, above("acceptance", context.acceptance(0), HIGH_FIRST_POSITION))


@HINTS.finding(accepting)
def wasted_last_position(context: FindingContext) -> Found | None:
    text = "The last of {tokens:.0f} positions is accepted in {acceptance:.3f} of the drafts, less than {threshold:g}. By the rule of thumb it is wasted: draft fewer tokens, unless drafting is almost free."
    tokens, positions = context.tokens, context.its.positions
    if tokens <= 1 or not positions.are_known or context.is_rare(-1):
        return None
    last, threshold = positions.highest_acceptance(tokens - 1), context.policy.findings.wasted_last_position
    return found(text, below("acceptance", last, threshold), tokens=tokens)


@HINTS.finding(accepting)
def room_for_longer_draft(context: FindingContext) -> Found | None:
    text = "The last of {tokens:.0f} positions is accepted in {acceptance:.3f} of the drafts, more than {threshold:g}: one more token may pay. It is a hypothesis: try it and compare."
    depth, is_bad = context.evaluation.recommended, context.evaluation.verdict in NOT_PAYING
    is_open = not is_bad if depth is None else depth.tokens > context.tokens
    last = above("acceptance", context.acceptance(-1), context.policy.depth.increase_above)
    return found(text, last, tokens=context.tokens) if is_open else None


@HINTS.finding(accepting)
def low_rate(context: FindingContext) -> Found | None:
    text = "The acceptance rate is {rate:.3f}; below {threshold:g} operators call it poor. The rate falls with the number of draft tokens, {tokens:.0f} here, and a long draft may still pay: rely on the verdict."
    return found(text, below("rate", context.its.draft_acceptance_ratio, LOW_RATE), tokens=context.tokens)


@HINTS.finding(accepting)
def high_rate(context: FindingContext) -> Found | None:
    text = "The acceptance rate is {rate:.3f}; above {threshold:g} operators call it good. It does not include the cost of drafting {tokens:.0f} tokens, which may still be slower: rely on the verdict."
    return found(text, above("rate", context.its.draft_acceptance_ratio, HIGH_RATE), tokens=context.tokens)


@HINTS.finding(drafting)
def unknown_cost(context: FindingContext) -> Found | None:
    text = "The cost of drafting is unknown. The verdict allows for every usual drafter: {lowest_cost:.3g} to {highest_cost:.3g} decode steps for a draft token. Configure the method (speculative.method), the sizes of the models (cost.draft_parameters and cost.target_parameters), or the cost itself."
    is_known = context.its.cost is not None or context.evaluation.state is State.DISABLED
    return None if is_known else Found(text, _range(context.its.possible_cost))


def _range(cost: Cost) -> Values:
    return {"lowest_cost": cost.low.token, "highest_cost": cost.high.token}


@HINTS.finding(drafting)
def typical_cost(context: FindingContext) -> Found | None:
    text = "The cost of drafting is the range that is typical of the method at this load: {lowest_cost:.3g} to {highest_cost:.3g} decode steps for a draft token, and about {fixed_cost:.3g} for a step that drafts. A measured cost narrows the bounds of the speed-up."
    cost = context.its.cost
    if cost is None or cost.source is not CostSource.TYPICAL:
        return None
    return Found(text, {**_range(cost), "fixed_cost": cost.guess.step})


@HINTS.finding(drafting)
def cost_without_load(context: FindingContext) -> Found | None:
    text = "The configured cost has no load, so that of {assumed_load:g} running requests is assumed; {running:.1f} run. A draft token may cost {lowest_cost:.3g} to {highest_cost:.3g} decode steps here. Add the load at which it was measured (cost.running_requests), or the cost at several loads (cost.loads)."
    cost, running, settings = context.its.cost, context.its.drafting_requests, context.known.cost.settings
    if settings is None or settings.draft_cost_ratio is None or settings.running_requests is not None:
        return None
    if running is None or cost is None or is_near(UNSTATED_LOAD, running):
        return None
    return Found(text, {"running": running, "assumed_load": UNSTATED_LOAD, **_range(cost)})


@HINTS.finding(drafting)
def cost_out_of_range(context: FindingContext) -> Found | None:
    text = "The cost of drafting is known for {known_at:.1f} running requests, and {running:.1f} run. Beyond half and twice its load it is widened to {lowest_cost:.3g} to {highest_cost:.3g} decode steps for a draft token: measure it at this load too (cost.loads)."
    cost, running = context.its.cost, context.its.drafting_requests
    if cost is None or cost.running_requests is None or running is None:
        return None
    if is_near(cost.running_requests, running) or cost_without_load(context) is not None:
        return None
    return Found(text, {"running": running, "known_at": cost.running_requests, **_range(cost)})


@HINTS.finding(covered)
def few_drafts(context: FindingContext) -> Found | None:
    text = "{drafts:.0f} drafts are fewer than the {threshold:.0f} that a verdict needs. Wait for more requests, or configure a longer window."
    return found(text, below("drafts", context.drafts or None, context.policy.min_drafts))


@HINTS.finding(drafting)
def few_requests(context: FindingContext) -> Found | None:
    text = "{requests:.1f} requests passed through the window one after the other. They count as {counted:.1f}, because the lengths of answers differ. Bounds need {threshold:g}; until then the verdict is never harmful and there is no advice. A verdict needs {least:g}. A longer window covers more requests."
    requests, counted = context.its.passing_requests, context.its.effective_requests
    if context.its.acceptance_length_bounds is not None or requests is None or counted is None:
        return None
    limits = {"threshold": MIN_BOUND_REQUESTS, "least": MIN_VERDICT_REQUESTS}
    few = Found(text, {"requests": requests, "counted": counted, **limits})
    return few if counted < MIN_BOUND_REQUESTS else None


@HINTS.finding(drafting)
def wide_bounds(context: FindingContext) -> Found | None:
    text = "The acceptance length of {length:.2f} is between {lower:.2f} and {upper:.2f}, too wide for a verdict: the requests differ much. Wait for more of them, or configure a longer window."
    bounds = context.its.acceptance_length_bounds
    if bounds is None or bounds.half_width <= context.policy.max_half_width * bounds.value:
        return None
    return Found(text, {"length": bounds.value, "lower": bounds.lower, "upper": bounds.upper})
