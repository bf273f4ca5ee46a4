"""Table of the findings: precondition, condition and text of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spec_decode_exporter.analysis import acceptance_conditions as acceptance
from spec_decode_exporter.analysis import cost_conditions as cost
from spec_decode_exporter.analysis import request_conditions as request
from spec_decode_exporter.analysis import schedule_conditions as schedule
from spec_decode_exporter.analysis import server_conditions as server
from spec_decode_exporter.drops.drop import DropKind
from spec_decode_exporter.findings.expected_acceptance import below_expectation
from spec_decode_exporter.findings.finding import Finding, FindingName, Severity
from spec_decode_exporter.findings.finding_context import FindingContext, Values, always, covered, drafting
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.core.number_formats import fields, fill


@dataclass(frozen=True, slots=True)
class Rule:
    """Precondition, condition and text of a finding."""

    name: FindingName
    severity: Severity
    precondition: Callable[[FindingContext], bool]
    """Returns whether the context has enough data."""
    condition: Callable[[FindingContext], Values | None]
    text: str
    """Format string of the values."""
    sequels: tuple[str, ...] = ()
    """Format strings of more sentences; each is added if the values have its numbers."""

    def apply(self, context: FindingContext) -> Finding | None:
        """Return the finding; None if the condition does not hold. The precondition must hold."""
        values = self.condition(context)
        if values is None:
            return None
        texts = (self.text, *(sequel for sequel in self.sequels if fields(sequel) <= values.keys()))
        return Finding(self.name, self.severity, values, " ".join(fill(text, values) for text in texts))


def _broken(name: FindingName, check: Check, text: str) -> Rule:
    return Rule(name, Severity.WARNING, always, server.is_broken(check), text)


_LOG = "The exporter's log has the numbers (check_broken)."
_COVERAGE = (
    "{coverage:.3f} of the decode steps had a draft, less than {threshold:g}. The acceptance length of "
    "{length:.2f} covers only these steps. Use the effective {effective_tokens:.2f} tokens per step instead."
)
WAYS_TO_MEASURE = (
    "To know it, cheapest first: let the exporter read a Prometheus that has this server from before it "
    "speculated (baseline.prometheus); wait until the engine does not draft for ten minutes under load, or "
    "restart it without speculation for ten minutes, and the exporter measures it; serve "
    "one replica without speculation as the baseline of an experiment; or configure the step times with and "
    "without speculation at this load (cost.loads)."
)
"""Ways to know the cost of drafting."""
_TRY = "It is a hypothesis: try it and compare."

RULES = (
    _broken(
        FindingName.BROKEN_POSITIONS_ADD_UP,
        Check.POSITIONS_ADD_UP,
        "In two successive polls the accepted tokens of all positions did not add up to the accepted tokens: "
        f"do not trust figures by position. {_LOG}",
    ),
    _broken(
        FindingName.BROKEN_POSITIONS_DECREASE,
        Check.POSITIONS_DECREASE,
        "In two successive polls a position had more accepted tokens than the one before it, or than there "
        f"were drafts: do not trust figures by position. {_LOG}",
    ),
    _broken(
        FindingName.BROKEN_ACCEPTED_WITHIN_DRAFTED,
        Check.ACCEPTED_WITHIN_DRAFTED,
        "In two successive polls more tokens were accepted than drafted: do not trust the acceptance rate. "
        f"{_LOG}",
    ),
    _broken(
        FindingName.BROKEN_DRAFTED_WITHIN_CONFIGURED,
        Check.DRAFTED_WITHIN_CONFIGURED,
        "In two successive polls more tokens were drafted than the positions allow: if the number of draft "
        f"tokens is configured for this target, correct it. {_LOG}",
    ),
    _broken(
        FindingName.BROKEN_ONE_SERVER,
        Check.ONE_SERVER,
        "Creation times of the counters alternate: several servers answer at this address, and their "
        "counters mix. Configure each server as its own target.",
    ),
    Rule(
        FindingName.SUDDEN_DROP,
        Severity.WARNING,
        always,
        acceptance.dropped_at(DropKind.SUDDEN),
        "Acceptance dropped at {began:clock}, {age:ago}: the acceptance length was {baseline:.2f} tokens, "
        "and is {length:.2f} now. Look for a change at that time: the requests, their temperature, a "
        "release.",
    ),
    Rule(
        FindingName.DRAFTING_DROP,
        Severity.WARNING,
        always,
        acceptance.dropped_at(DropKind.DRAFTING),
        "Since {began:clock}, {age:ago}, fewer decode steps have a draft: a step gave {baseline:.2f} tokens, "
        "and gives {length:.2f} now. An n-gram or suffix drafter drafts only if text repeats itself: look "
        "for other requests since that time.",
    ),
    Rule(
        FindingName.SLOW_DROP,
        Severity.WARNING,
        always,
        acceptance.dropped(DropKind.SLOW),
        "Acceptance has declined for hours: the acceptance length is {length:.2f} tokens now, and was "
        "{baseline:.2f} in the last half hour. Some server defects cause this until a restart.",
    ),
    Rule(
        FindingName.STALLED,
        Severity.WARNING,
        covered,
        server.stalled,
        "The engine drafted before, and did not for {seconds:.0f} s and more than {least_steps:.0f} decode "
        "steps. Read the server's log; a restart of the server makes it draft again.",
    ),
    Rule(
        FindingName.DRAFTER_DEAD,
        Severity.WARNING,
        drafting,
        acceptance.drafter_is_dead,
        "The first draft token was accepted in {acceptance:.3f} of {drafts:.0f} drafts, below "
        "{threshold:g}: the drafter does not work and only costs time. Check that it matches this target "
        "model (revision, tokenizer, quantisation) and that prompts fit into its context; until then, "
        "disable speculation.",
    ),
    Rule(
        FindingName.REPETITION,
        Severity.WARNING,
        acceptance.accepting,
        acceptance.repetition,
        "For {seconds:.0f} s position 0 was accepted in {acceptance:.3f} of the drafts, at least "
        "{threshold:g}. This is typical of a model that repeats itself without end, or of synthetic "
        "acceptance: read some of the answers.",
    ),
    Rule(
        FindingName.CLIFF,
        Severity.WARNING,
        acceptance.accepting,
        acceptance.cliff,
        "Of the drafts that reach position {position:.0f}, {acceptance:.3f} are accepted there, compared "
        "with {acceptance_before:.3f} at position {position_before:.0f}: the decay is larger than drafters "
        "usually have. Draft {position:.0f} tokens, or find the cause (a drafter trained for fewer tokens, "
        "its maximum context).",
    ),
    Rule(
        FindingName.BELOW_EXPECTATION,
        Severity.WARNING,
        acceptance.accepting,
        below_expectation,
        "Of the drafts that reach position {position:.0f}, {acceptance:.3f} are accepted there, at most "
        "{upper:.3f}. The drafter's training report expects {expected:.3f} (speculative.expected_positions). "
        "Likely causes: another revision of the drafter or the target model, another tokenizer or chat "
        "template, quantisation, a higher temperature, prompts unlike the training data. Compare each with "
        "the training.",
    ),
    Rule(
        FindingName.ABOVE_CROSSOVER,
        Severity.WARNING,
        drafting,
        cost.above_crossover,
        "{running:.1f} requests run, and speculation does not pay above {crossover:.1f}. Draft nothing in "
        "large batches (num_speculative_tokens_per_batch_size), or spread the requests over more servers.",
    ),
    Rule(
        FindingName.NO_DEPTH_PAYS,
        Severity.WARNING,
        drafting,
        cost.no_depth_pays,
        "A draft token costs {draft_cost:.3g} decode steps, and a draft {fixed_cost:.3g} in addition: no "
        "number of draft tokens is faster than none. If these costs are right, disable speculation.",
    ),
    Rule(
        FindingName.UNCLEAR_COST,
        Severity.WARNING,
        drafting,
        cost.unclear_cost,
        "The speed-up is between {lower:.2f} and {upper:.2f}, and the cost of drafting decides on which side "
        "of 1. Speculation pays if a draft token costs less than {break_even:.3g} decode steps; it costs "
        f"{{lowest_cost:.3g}} to {{highest_cost:.3g}}. {WAYS_TO_MEASURE}",
    ),
    Rule(
        FindingName.KV_PRESSURE,
        Severity.WARNING,
        covered,
        server.kv_pressure,
        "{usage:.3f} of the KV cache is in use, more than {threshold:g}, and {preemptions:.0f} requests "
        "were preempted in {seconds:.0f} s. A draft model takes its memory from the cache: give vLLM more "
        "(gpu_memory_utilization), run fewer requests at a time (max_num_seqs), or draft without a model.",
    ),
    Rule(
        FindingName.PREFIX_CACHE_LOST,
        Severity.WARNING,
        drafting,
        request.prefix_cache_lost,
        "{requests:.0f} requests looked up {queries:.0f} prompt tokens in the prefix cache in {seconds:.0f} "
        "s, and found none. With some hybrid models speculation disables the prefix cache without a warning "
        "(vLLM issue 54360), and each prompt is computed again. To confirm, send one long prompt twice. If "
        "the second first token is as slow as the first one, update vLLM, set "
        "--prefix-cache-retention-interval to the block size, or use another method. If it is fast, only the "
        "counter is wrong. Prompts without a common beginning have no hits either.",
        (
            "Without speculation {hits_without:.3f} of the prompt tokens were found.",
            "The mean time to first token is {first_token:.3g} s, without it {first_token_without:.3g} s.",
        ),
    ),
    Rule(
        FindingName.TOKEN_TIME_TAIL,
        Severity.WARNING,
        covered,
        server.token_time_tail,
        "One request in a hundred waits {p99:.3g} s or longer for a token, {ratio:.1f} times the median of "
        "{p50:.3g} s. Look for requests whose drafts are rejected, for preemptions, and for long prompts "
        "beside them (max_num_batched_tokens).",
    ),
    Rule(
        FindingName.DECODE_STEP_TAIL,
        Severity.INFO,
        covered,
        server.decode_step_tail,
        "One decode step in a hundred takes {p99:.3g} s or longer, {ratio:.1f} times the median of "
        "{p50:.3g} s. Usually a long prompt shares the step: limit what one step may take in "
        "(max_num_batched_tokens).",
    ),
    Rule(
        FindingName.SCHEDULE_FLIPS,
        Severity.INFO,
        drafting,
        schedule.schedule_flips,
        "The schedule changed the number of draft tokens in {changes:.0f} of {polls:.0f} polls: "
        "{running:.1f} requests run, and from {boundary:.0f} on it drafts {above:.0f} instead of {below:.0f}."
        " Steps of changing length can cost throughput (vLLM issue 49548). Move the boundary away from this "
        "load, to where both numbers are about as fast: `spec-decode-exporter recommend` prints it.",
    ),
    Rule(
        FindingName.DRAFTING_PAUSED,
        Severity.INFO,
        drafting,
        server.drafting_paused,
        f"{_COVERAGE} This method drafts in every step, so drafting paused for a part of the window: it "
        "stalled, or the schedule has no draft for some batch sizes "
        "(num_speculative_tokens_per_batch_size). Find the time when drafts stop, and read the server's log.",
    ),
    Rule(
        FindingName.LOW_COVERAGE,
        Severity.INFO,
        drafting,
        server.low_coverage,
        f"{_COVERAGE} An n-gram or suffix drafter drafts only if text repeats itself; if that is rare here, "
        "try another method.",
    ),
    Rule(
        FindingName.LOSSY_REJECTION,
        Severity.INFO,
        drafting,
        server.lossy_rejection,
        "The server's rejection sampling is lossy (rejection_sample_method fly): it accepts draft tokens "
        "that the target model would not generate. Acceptance and speed-up include them, and the text "
        "differs from the target model's. Compare the quality of the answers before you compare speeds.",
    ),
    Rule(
        FindingName.TRIMMED_TOKENS,
        Severity.INFO,
        acceptance.accepting,
        server.trimmed_tokens,
        "{lost:.0f} of {counted:.0f} tokens, {share:.3f}, were discarded: they were accepted beyond the end "
        "of an answer. The acceptance length is too high by them; use the effective tokens per step instead. "
        "With such short answers, draft fewer tokens.",
    ),
    Rule(
        FindingName.FASTER_METHOD,
        Severity.INFO,
        drafting,
        cost.faster_method,
        "Another arm of the experiment serves this model by another method {speedup:.2f} times as fast as "
        "the baseline, at least {speedup_lower:.2f}; this one is {own_speedup:.2f} times as fast, at most "
        "{own_speedup_upper:.2f}. Switch to that method, on this engine first.",
    ),
    Rule(
        FindingName.ANOTHER_DEPTH,
        Severity.INFO,
        drafting,
        cost.another_depth,
        "{recommended_tokens:plural draft token} instead of {tokens:.0f} should make decoding {speedup:.2f} "
        "times as fast as without speculation, instead of {present_speedup:.2f} times "
        f"(num_speculative_tokens). {_TRY}",
    ),
    Rule(
        FindingName.LOW_FIRST_POSITION,
        Severity.INFO,
        acceptance.accepting,
        acceptance.low_first_position,
        "Position 0 is accepted in {acceptance:.3f} of the drafts, less than {threshold:g}: the very next "
        "token is often another one. Look at the requests first: a high temperature and unusual prompts "
        "cause this. If they are as intended, use a drafter trained for this target model and these texts; "
        "another number of draft tokens does not help.",
    ),
    Rule(
        FindingName.HIGH_FIRST_POSITION,
        Severity.INFO,
        acceptance.accepting,
        acceptance.high_first_position,
        "Position 0 is accepted in {acceptance:.3f} of the drafts, more than {threshold:g}: the drafter "
        "fits the target model well. No action is needed.",
    ),
    Rule(
        FindingName.WASTED_LAST_POSITION,
        Severity.INFO,
        acceptance.accepting,
        acceptance.wasted_last_position,
        "The last of {tokens:.0f} positions is accepted in {acceptance:.3f} of the drafts, less than "
        "{threshold:g}. By the rule of thumb it is wasted: draft fewer tokens, unless drafting is almost "
        "free.",
    ),
    Rule(
        FindingName.ROOM_FOR_LONGER_DRAFT,
        Severity.INFO,
        acceptance.accepting,
        acceptance.room_for_longer_draft,
        "The last of {tokens:.0f} positions is accepted in {acceptance:.3f} of the drafts, more than "
        f"{{threshold:g}}: one more token may pay. {_TRY}",
    ),
    Rule(
        FindingName.LOW_RATE,
        Severity.INFO,
        acceptance.accepting,
        acceptance.low_rate,
        "The acceptance rate is {rate:.3f}; below {threshold:g} operators call it poor. The rate falls with "
        "the number of draft tokens, {tokens:.0f} here, and a long draft may still pay: rely on the verdict.",
    ),
    Rule(
        FindingName.HIGH_RATE,
        Severity.INFO,
        acceptance.accepting,
        acceptance.high_rate,
        "The acceptance rate is {rate:.3f}; above {threshold:g} operators call it good. It does not include "
        "the cost of drafting {tokens:.0f} tokens, which may still be slower: rely on the verdict.",
    ),
    Rule(
        FindingName.UNKNOWN_COST,
        Severity.INFO,
        drafting,
        cost.unknown_cost,
        "The cost of drafting is unknown. The verdict allows for every usual drafter: {lowest_cost:.3g} to "
        "{highest_cost:.3g} decode steps for a draft token. Configure the method (speculative.method), the "
        "sizes of the models (cost.draft_parameters and cost.target_parameters), or the cost itself.",
    ),
    Rule(
        FindingName.TYPICAL_COST,
        Severity.INFO,
        drafting,
        cost.typical_cost,
        "The cost of drafting is the range that is typical of the method at this load: {lowest_cost:.3g} to "
        "{highest_cost:.3g} decode steps for a draft token, and about {fixed_cost:.3g} for a step that "
        "drafts. A measured cost narrows the bounds of the speed-up.",
    ),
    Rule(
        FindingName.COST_WITHOUT_LOAD,
        Severity.INFO,
        drafting,
        cost.cost_without_load,
        "The configured cost has no load, so that of {assumed_load:g} running requests is assumed; "
        "{running:.1f} run. A draft token may cost {lowest_cost:.3g} to {highest_cost:.3g} decode steps "
        "here. Add the load at which it was measured (cost.running_requests), or the cost at several loads "
        "(cost.loads).",
    ),
    Rule(
        FindingName.COST_OUT_OF_RANGE,
        Severity.INFO,
        drafting,
        cost.cost_out_of_range,
        "The cost of drafting is known for {known_at:.1f} running requests, and {running:.1f} run. Beyond "
        "half and twice its load it is widened to {lowest_cost:.3g} to {highest_cost:.3g} decode steps for "
        "a draft token: measure it at this load too (cost.loads).",
    ),
    Rule(
        FindingName.FEW_DRAFTS,
        Severity.INFO,
        covered,
        acceptance.too_few_drafts,
        "{drafts:.0f} drafts are fewer than the {threshold:.0f} that a verdict needs. Wait for more "
        "requests, or configure a longer window.",
    ),
    Rule(
        FindingName.FEW_REQUESTS,
        Severity.INFO,
        drafting,
        acceptance.too_few_requests,
        "{requests:.1f} requests passed through the window one after the other. They count as {counted:.1f}, "
        "because the lengths of answers differ. Bounds need {threshold:g}; until then the verdict is never "
        "harmful and there is no advice. A verdict needs {least:g}. A longer window covers more requests.",
    ),
    Rule(
        FindingName.WIDE_BOUNDS,
        Severity.INFO,
        drafting,
        acceptance.too_unsure,
        "The acceptance length of {length:.2f} is between {lower:.2f} and {upper:.2f}, too wide for a "
        "verdict: the requests differ much. Wait for more of them, or configure a longer window.",
    ),
)


_PRECONDITIONS = frozenset(rule.precondition for rule in RULES)


def findings(context: FindingContext) -> tuple[Finding, ...]:
    """Return all findings in the order of the table: faults first, reasons for uncertainty last."""
    holding = {precondition for precondition in _PRECONDITIONS if precondition(context)}
    applied = (rule.apply(context) for rule in RULES if rule.precondition in holding)
    return tuple(finding for finding in applied if finding is not None)
