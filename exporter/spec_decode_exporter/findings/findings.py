"""All findings about one engine: one function each, with its text.

Faults come first, then hints that help to read the verdict, at last the reasons for an uncertain verdict; of
each kind they are shown in their order here.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from spec_decode_exporter.analysis.end_to_end import is_prefix_cache_lost
from spec_decode_exporter.analysis.evaluation import Evaluation
from spec_decode_exporter.analysis.knowledge import Drafting
from spec_decode_exporter.analysis.missing_evidence import ways_to_know
from spec_decode_exporter.analysis.verdict import NOT_PAYING, State, Verdict, decoded_steps
from spec_decode_exporter.analysis.window_evaluation import DEAD, MIN_VERDICT_REQUESTS
from spec_decode_exporter.costs.cost import UNSTATED_LOAD, CostSource, is_near
from spec_decode_exporter.drops.sums import DropKind, DropStatus
from spec_decode_exporter.figures.estimate import MIN_BOUND_REQUESTS, ratio
from spec_decode_exporter.findings.finding import (
    Finding,
    FindingContext,
    Found,
    Rules,
    Severity,
    Values,
    above,
    accepting,
    always,
    below,
    cost_range,
    covered,
    drafting,
    found,
    tail,
)
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.window.engine_windows import MIN_INCREMENTS
from spec_decode_exporter.window.poll import Check

FLIPPING: Final = 0.25  # share of polls in which K changed; a load that changes its range does so once
TRIMMED: Final = 0.05  # share of discarded tokens above which the length misleads, whatever its bounds
LOSSY_REJECTION: Final = frozenset({"fly"})
"""vLLM's rejection methods that accept tokens which the target model would not generate.

``standard`` and ``block`` are exact; ``synthetic``, for benchmarks, fixes the acceptance.
"""
PARALLEL_TOKENS: Final = 7  # those with which drafters of one pass are served (P-EAGLE: arXiv 2602.01469)
MIN_PREFILLS: Final = 10  # requests without a decode step of a prefill server; fewer may be a warm-up
_COVERAGE: Final = "{coverage:.3f} of the decode steps had a draft, less than {threshold:g}. The acceptance length of {length:.2f} covers only these steps. Use the effective {effective_tokens:.2f} tokens per step instead."
_BROKEN: Final = {
    Check.POSITIONS_ADD_UP: "In two successive polls the accepted tokens of all positions did not add up to the accepted tokens: do not trust figures by position. The exporter's log has the numbers (check_broken).",
    Check.POSITIONS_DECREASE: "In two successive polls a position had more accepted tokens than the one before it, or than there were drafts: do not trust figures by position. The exporter's log has the numbers (check_broken).",
    Check.ACCEPTED_WITHIN_DRAFTED: "In two successive polls more tokens were accepted than drafted: do not trust the acceptance rate. The exporter's log has the numbers (check_broken).",
    Check.DRAFTED_WITHIN_CONFIGURED: "In two successive polls more tokens were drafted than the positions allow: if the number of draft tokens is configured for this target, correct it. The exporter's log has the numbers (check_broken).",
    Check.ONE_SERVER: "Creation times of the counters alternate: several servers answer at this address, and their counters mix. Name each server as its own target instead of this address, which may be a router's.",
}

FAULTS: Final = Rules(Severity.WARNING)  # faults and obstacles: an operator should act
HINTS: Final = Rules(Severity.INFO)


def _broken(check: Check, context: FindingContext) -> Found | None:
    """Return the finding of a broken identity of the counters."""
    return Found(_BROKEN[check], {}) if check in context.broken else None


FAULTS.conditions |= {f"broken_{check}": (always, partial(_broken, check)) for check in Check}


_LIVE_DROPS: Final = {
    DropKind.SUDDEN: "Acceptance dropped at {began:clock}, {age:ago}: from {baseline:.2f} tokens a draft to {length:.2f} now. Check what changed then: prompts, sampling temperature, or a deployment.",
    DropKind.DRAFTING: "Since {began:clock}, {age:ago}, fewer decode steps have a draft: a step gave {baseline:.2f} tokens, and gives {length:.2f} now. An n-gram or suffix drafter drafts only if text repeats itself: check whether the requests changed then. Other drafters skip requests that are longer than their context: read the server's log.",
}


def _live_drop(kind: DropKind, context: FindingContext) -> Found | None:
    """Return the finding of a drop that began at a moment."""
    if (drop := context.drops.live.get(kind)) is None:
        return None
    lengths = {"baseline": drop.baseline_length, "length": drop.length}
    return Found(_LIVE_DROPS[kind], {**lengths, "began": context.known.wall - drop.age, "age": drop.age})


FAULTS.conditions |= {f"{kind}_drop": (always, partial(_live_drop, kind)) for kind in _LIVE_DROPS}


@FAULTS.finding(always)
def counts_no_drafts(context: FindingContext) -> Found | None:
    text = "This SGLang counts no drafts, so there is no verdict. Update it to a version from May 2026 or later, which does. "
    length = context.reported_length
    if context.known.assumed.engine_kind != "sglang" or context.its.total.drafts is not None or not length:
        return None
    return Found(text + "The acceptance length that it reports is {length:.2f}.", {"length": length})


_COUNT_THEM: Final = {
    "vllm": "Read the server's own page, or add `vllm:spec_decode_.*`, tokens and latencies to the allow-list of the proxy or scrape job that filters it; vLLM counts drafts since 0.8.5.",
    "tensorrt_llm": "TensorRT-LLM counts drafts since April 2026, with its PyTorch backend and `return_perf_metrics: true`.",
}


@FAULTS.finding(always)
def drafts_not_counted(context: FindingContext) -> Found | None:
    text, values = "The page does not say whether the engine speculates: it has no counters of drafts. ", {}
    its, total, tokens = context.its, context.its.total, context.its.effective_tokens_per_step
    lacking = [name.replace("_", " ") for name in total._fields[:3] if getattr(total, name) is None]
    if context.known.drafting is Drafting.UNCOUNTED and tokens is not None:
        text = "A decode step yields {tokens:.2f} tokens, so the engine drafts, but its page does not count drafts. "
        values = {"tokens": tokens}
    elif lacking and (any(total[:3]) or any(its.window.positions)):
        text = f"The page lacks the number of {' and of '.join(lacking)}, so there is no verdict. "
    elif context.known.drafting is not Drafting.UNKNOWN:
        return None
    return Found(text + _COUNT_THEM.get(context.known.assumed.engine_kind, "Update the server."), values)


@HINTS.finding(always)
def decodes_nothing(context: FindingContext) -> Found | None:
    text = "It decodes nothing: {requests:,.0f} requests got their first token here, none a second one. It is a prefill server: watch the decode servers."
    total, window = context.its.total, context.its.window
    requests = total.first_tokens or 0
    is_decoding = total.drafts or decoded_steps(window) != 0
    if is_decoding or window.polls < MIN_INCREMENTS or requests < MIN_PREFILLS:
        return None
    return Found(text, {"requests": requests})


@FAULTS.finding(covered)
def stalled(context: FindingContext) -> Found | None:
    text = "The engine drafted before, and did not for {seconds:.0f} s and more than {least_steps:,.0f} decode steps. Read the server's log; a restart of the server makes it draft again."
    if context.evaluation.state is not State.STALLED:
        return None
    return Found(text, {"seconds": context.its.window.seconds, "least_steps": context.policy.min_drafts})


@FAULTS.finding(drafting)
def drafter_dead(context: FindingContext) -> Found | None:
    finds_nothing = "It finds almost nothing to draft: the first draft token was accepted in {acceptance:.3f} of {drafts:.0f} drafts, below {threshold:g}. The drafts are chance hits or padding, and only cost time: disable speculation, unless answers that repeat their prompts are expected."
    text = "The first draft token was accepted in {acceptance:percent} of {drafts:,.0f} drafts, below {threshold:percent}: the drafter does not work and only costs time. Check that it matches this target model (revision, tokenizer, quantization) and that prompts fit into its context; until then, disable speculation."
    text = finds_nothing if context.known.drafts_what_it_finds else text
    return found(text, below("acceptance", context.its.first_acceptance_ratio, DEAD), drafts=context.drafts)


@FAULTS.finding(accepting)
def repetition(context: FindingContext) -> Found | None:
    text = "For {seconds:.0f} s the first position was accepted in {acceptance:percent} of the drafts, at least {threshold:percent}. This is typical of a model in a loop, or of synthetic acceptance: read some answers."
    first, threshold = context.acceptance(0), context.policy.findings.repetition_first_position
    if first is None or first < threshold or not context.evaluation.is_whole:
        return None
    return Found(text, {"acceptance": first, "threshold": threshold, "seconds": context.its.window.seconds})


@FAULTS.finding(accepting)
def cliff(context: FindingContext) -> Found | None:
    text = "Of the drafts that reach position {position:.0f}, {acceptance:percent} are accepted there, compared with {acceptance_before:percent} at position {position_before:.0f}: the decay is larger than drafters usually have. Draft {position:.0f} tokens, or find the cause (a drafter trained for fewer tokens, its maximum context)."
    positions, least = context.its.positions, context.policy.min_drafts
    for position in range(1, len(positions.counts)):
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
    text = "Of the drafts that reach position {position:.0f}, {acceptance:percent} are accepted there, at most {upper:percent}. The drafter's training report expects {expected:percent} (speculative.expected_positions). Likely causes: another revision of the drafter or the target model, another tokenizer or chat template, quantization, a higher temperature, prompts unlike the training data. Compare each with the training."
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
def unclear_cost(context: FindingContext) -> Found | None:
    ways = (f"{way.text[0].lower()}{way.text[1:]} ({way.takes})" for way in ways_to_know(context.its))
    text = f"The speed-up is between {{lower:.2f}} and {{upper:.2f}}, and the cost of drafting decides on which side of 1. Speculation pays if a draft token costs less than {{break_even:.3g}} decode steps; it costs {{lowest_cost:.3g}} to {{highest_cost:.3g}}. To know it, cheapest first: {'; or '.join(ways)}."
    even, speedup = context.its.break_even_cost_ratio, context.its.speedup_range
    is_unclear = context.evaluation.verdict is Verdict.UNCLEAR and not context.its.is_dead
    if not is_unclear or even is None or speedup is None:
        return None
    bounds = {"lower": speedup.estimate.lower, "upper": speedup.estimate.upper}
    return Found(text, {**bounds, "break_even": max(even, 0.0), **cost_range(context.its.possible_cost)})


@FAULTS.finding(covered)
def kv_pressure(context: FindingContext) -> Found | None:
    text = "{usage:percent} of the KV cache is in use, more than {threshold:percent}, and {preemptions:,.0f} requests were preempted in {seconds:.0f} s. A draft model takes its memory from the cache: give vLLM more (gpu_memory_utilization), run fewer requests at a time (max_num_seqs), or draft without a model."
    window, preemptions = context.its.window, context.its.total.preemptions
    usage = above("usage", window.mean.kv_cache_usage_ratio, context.policy.findings.kv_cache_usage)
    return found(text, usage, preemptions=preemptions, seconds=window.seconds) if preemptions else None


@FAULTS.finding(drafting)
def prefix_cache_lost(context: FindingContext) -> Found | None:
    text = "{requests:,.0f} requests looked up {queries:,.0f} prompt tokens in the prefix cache in {seconds:.0f} s, and found none. With some hybrid models speculation disables the prefix cache without a warning (vLLM issue 54360), and each prompt is computed again. To confirm, send one long prompt twice. If the second first token is as slow as the first one, update vLLM, set --prefix-cache-retention-interval to the block size, or use another method. If it is fast, only the counter is wrong. Prompts without a common beginning have no hits either."
    total, baseline = context.its.total, context.known.baseline
    queries, requests = total.prefix_cache_queries, total.first_tokens
    if not is_prefix_cache_lost(context.its, baseline) or queries is None or requests is None:
        return None
    hits = None if baseline is None else baseline.prefix_hit_ratio
    values = {"requests": requests, "queries": queries, "seconds": context.its.window.seconds}
    if hits is not None:
        text += " Without speculation {hits_without:.3f} of the prompt tokens were found."
        values["hits_without"] = hits
    return Found(text, values)


@FAULTS.finding(covered)
def token_time_tail(context: FindingContext) -> Found | None:
    text = "One request in a hundred waits {p99:.3g} s or longer for a token, {ratio:.1f} times the median of {p50:.3g} s. Check for requests whose drafts are rejected, for preemptions, and for long prompts in the same batch (max_num_batched_tokens)."
    return tail(context, Latency.TIME_PER_OUTPUT_TOKEN, text)


@HINTS.finding(covered)
def decode_step_tail(context: FindingContext) -> Found | None:
    text = "One decode step in a hundred takes {p99:.3g} s or longer, {ratio:.1f} times the median of {p50:.3g} s. Usually a long prompt shares the step: limit what one step may take in (max_num_batched_tokens)."
    return tail(context, Latency.DECODE_STEP, text)


@HINTS.finding(drafting)
def schedule_flips(context: FindingContext) -> Found | None:
    text = "The schedule changed the number of draft tokens in {changes:.0f} of {polls:.0f} polls: {running:.1f} requests run, and from {boundary:.0f} on it drafts {above:.0f} instead of {below:.0f}. Steps of changing length can cost throughput (vLLM issue 49548). Move the boundary away from this load, to where both numbers are about as fast: `spec-decode-exporter recommend` prints it."
    schedule, running = context.known.speculation.schedule, context.its.window.mean.running_requests
    boundaries, changed = schedule.firsts[1:], context.its.draft_length_changes
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


@HINTS.finding(drafting)
def slow_steps_with_fp8(context: FindingContext) -> Found | None:
    text = "The KV cache is FP8, and speculation does not pay though its first position is accepted in {acceptance:percent} of the drafts: by measured step times a step with drafts is too long, {steps:.2f} decode steps. Some attention kernels verify several tokens a request slowly with an FP8 cache: compare the time of a step with `--kv-cache-dtype auto`."
    cache, cost, work = context.known.assumed.kv_cache, context.its.cost, context.its.work
    acceptance, is_slow = context.acceptance(0), context.evaluation.verdict in NOT_PAYING
    if cache is None or cost is None or work is None or acceptance is None or not is_slow:
        return None
    is_measured = cost.source not in {CostSource.CONFIGURED, CostSource.TYPICAL}
    is_drafter = acceptance < context.policy.findings.low_first_position
    if is_drafter or not is_measured or not cache.dtype.startswith("fp8"):
        return None
    return Found(text, {"acceptance": acceptance, "steps": cost.guess.plain_steps(work) / work.steps})


@HINTS.finding(accepting)
def trimmed_tokens(context: FindingContext) -> Found | None:
    text = "{lost:,.0f} of {counted:,.0f} tokens ({share:percent}) were discarded: they were accepted beyond the end of an answer. The acceptance length is too high by {excess:.2f}; use the effective tokens per step instead. With such short answers, draft fewer tokens."
    total = context.its.total
    if total.decode_steps is None or total.accepted_tokens is None or total.decoded_tokens is None:
        return None
    # A step yields one token and the accepted ones of its draft; fewer tokens were generated.
    counted = total.decode_steps + total.accepted_tokens
    lost, length = counted - total.decoded_tokens, context.its.acceptance_length_bounds
    exceeds_bounds = length is not None and lost > (length.upper - length.value) * context.drafts
    if lost <= TRIMMED * counted and not exceeds_bounds:
        return None
    shares = {"share": lost / counted, "excess": lost / context.drafts}
    return Found(text, {"lost": lost, "counted": counted, **shares})


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
    its, tokens = context.its, context.evaluation.decision.advice.tokens
    if its.cost is None or its.depths is None or tokens is None or not its.is_worth_a_change(tokens):
        return None
    numbers = {"tokens": context.tokens, "recommended_tokens": tokens}
    present, other = (its.depths.speedup(its.cost.guess, number) for number in numbers.values())
    return Found(text, {**numbers, "speedup": other, "present_speedup": present})


@HINTS.finding(accepting)
def low_first_position(context: FindingContext) -> Found | None:
    text = "The first draft token is accepted in {acceptance:percent} of the drafts, below {threshold:percent}: even the next token is often predicted wrongly. Check the requests first: a high temperature and unusual prompts cause this. If they are as intended, use a drafter trained for this target model and these texts; another number of draft tokens does not help."
    threshold = context.policy.findings.low_first_position
    return found(text, below("acceptance", context.acceptance(0), threshold))


@HINTS.finding(accepting)
def wasted_last_position(context: FindingContext) -> Found | None:
    text = "The last of {tokens:.0f} draft tokens is accepted in {acceptance:percent} of the drafts, below {threshold:percent}. By the rule of thumb it is wasted: draft fewer tokens, unless drafting is almost free."
    tokens, positions = context.tokens, context.its.positions
    if tokens <= 1 or not positions.are_known or context.is_rare(-1):
        return None
    last, threshold = positions.highest_acceptance(tokens - 1), context.policy.findings.wasted_last_position
    return found(text, below("acceptance", last, threshold), tokens=tokens)


def _may_draft_more(context: FindingContext) -> bool:
    """Return whether the advice is more tokens or, without a number, no verdict is against them."""
    best = context.its.best_tokens
    return context.evaluation.verdict not in NOT_PAYING if best is None else best > context.tokens


@HINTS.finding(accepting)
def room_for_longer_draft(context: FindingContext) -> Found | None:
    text = "With {tokens:plural draft token} the last one is accepted in {acceptance:percent} of the drafts, above {threshold:percent}: one more token may pay. It is a hypothesis: try it and compare."
    last = above("acceptance", context.acceptance(-1), context.policy.depth.increase_above)
    return found(text, last, tokens=context.tokens) if _may_draft_more(context) else None


@HINTS.finding(accepting)
def short_parallel_draft(context: FindingContext) -> Found | None:
    text = "One pass of the drafter drafts all tokens, {tokens:.0f} now, so that a further one costs no more than its verification: such drafters are usually served with {usual:.0f}. Try more tokens, and compare."
    if not context.known.speculation.drafts_in_parallel or not _may_draft_more(context):
        return None
    return found(text, below("tokens", context.tokens or None, PARALLEL_TOKENS), usual=PARALLEL_TOKENS)


@HINTS.finding(drafting)
def cost_without_load(context: FindingContext) -> Found | None:
    text = "The configured cost has no load: {assumed_load:g} running requests are assumed, {running:.1f} run. A draft token may cost {lowest_cost:.3g} to {highest_cost:.3g} decode steps here. Add the load at which it was measured (cost.running_requests), or the cost at several loads (cost.loads)."
    cost, running, settings = context.its.cost, context.its.drafting_requests, context.known.cost.settings
    if settings is None or settings.draft_cost_ratio is None or settings.running_requests is not None:
        return None
    if running is None or cost is None or is_near(UNSTATED_LOAD, running):
        return None
    return Found(text, {"running": running, "assumed_load": UNSTATED_LOAD, **cost_range(cost)})


@HINTS.finding(drafting)
def cost_out_of_range(context: FindingContext) -> Found | None:
    text = "The cost of drafting is known for {known_at:.1f} running requests, and {running:.1f} run. Beyond half and twice its load it is widened to {lowest_cost:.3g} to {highest_cost:.3g} decode steps for a draft token: measure it at this load too (cost.loads)."
    cost, running = context.its.cost, context.its.drafting_requests
    if cost is None or cost.running_requests is None or running is None:
        return None
    if is_near(cost.running_requests, running) or cost_without_load(context) is not None:
        return None
    return Found(text, {"running": running, "known_at": cost.running_requests, **cost_range(cost)})


@HINTS.finding(covered)
def few_drafts(context: FindingContext) -> Found | None:
    text = "Not enough drafts: {drafts:,.0f} so far, {threshold:.0f} needed for a verdict. Wait for more requests, or configure a longer window."
    return found(text, below("drafts", context.drafts or None, context.policy.min_drafts))


@HINTS.finding(drafting)
def few_requests(context: FindingContext) -> Found | None:
    text = "Not enough traffic: {counted:.1f} effective requests so far, {threshold:g} needed for bounds and advice, and {least:g} for a verdict. A longer window covers more requests."
    requests, counted = context.its.passing_requests, context.its.effective_requests
    if context.its.acceptance_length_bounds is not None or requests is None or counted is None:
        return None
    few = below("counted", counted, MIN_BOUND_REQUESTS)
    return found(text, few, requests=requests, least=MIN_VERDICT_REQUESTS)


@HINTS.finding(drafting)
def wide_bounds(context: FindingContext) -> Found | None:
    text = "The acceptance length of {length:.2f} is between {lower:.2f} and {upper:.2f}, too wide for a verdict: the requests differ much. Wait for more of them, or configure a longer window."
    bounds = context.its.acceptance_length_bounds
    if bounds is None or bounds.half_width <= context.policy.max_half_width * bounds.value:
        return None
    return Found(text, {"length": bounds.value, "lower": bounds.lower, "upper": bounds.upper})


NAMES: Final = (*FAULTS.conditions, *HINTS.conditions)  # names of all findings, in their order


def findings(
    evaluation: Evaluation,
    broken: frozenset[Check],
    drops: DropStatus,
    reported_length: float | None = None,
) -> tuple[Finding, ...]:
    """Return all findings that hold.

    Args:
        evaluation: Evaluation of the engine; one without windows has no findings.
        broken: Identities of the counters that two successive polls broke.
        drops: Drops of the acceptance length.
        reported_length: Acceptance length that the engine itself reports.
    """
    if not evaluation.windows:
        return ()
    context = FindingContext(evaluation, broken, drops, reported_length)
    return (*FAULTS.of(context), *HINTS.of(context))
