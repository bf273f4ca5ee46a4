"""What is worth pointing out beside the verdict: ONE table, of what is looked for and what is said of it.

A finding is a rule of thumb, a fault, or the reason why the verdict is not surer. It never changes the
verdict. Its text is made of numbers and of our own words, never of what a server calls itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from spec_decode_exporter.analysis import finding_context as found
from spec_decode_exporter.analysis.drops.drop import DropKind
from spec_decode_exporter.analysis.finding_context import FindingContext, Values
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.core.number_formats import fill


class Severity(StrEnum):
    """Whether somebody should act."""

    INFO = "info"
    """Worth knowing when reading the verdict."""
    WARNING = "warning"
    """Something is wrong, or in the way."""


class FindingName(StrEnum):
    """What was found; each has one row in ``RULES``."""

    BROKEN_POSITIONS_ADD_UP = "broken_positions_add_up"
    BROKEN_POSITIONS_DECREASE = "broken_positions_decrease"
    BROKEN_ACCEPTED_WITHIN_DRAFTED = "broken_accepted_within_drafted"
    BROKEN_DRAFTED_WITHIN_CONFIGURED = "broken_drafted_within_configured"
    BROKEN_ONE_SERVER = "broken_one_server"
    SUDDEN_DROP = "sudden_drop"
    SLOW_DROP = "slow_drop"
    STALLED = "stalled"
    DRAFTER_DEAD = "drafter_dead"
    REPETITION = "repetition"
    CLIFF = "cliff"
    ABOVE_CROSSOVER = "above_crossover"
    NO_DEPTH_PAYS = "no_depth_pays"
    KV_PRESSURE = "kv_pressure"
    TOKEN_TIME_TAIL = "token_time_tail"  # noqa: S105 - a token of text
    DECODE_STEP_TAIL = "decode_step_tail"
    DRAFTING_PAUSED = "drafting_paused"
    LOW_COVERAGE = "low_coverage"
    TRIMMED_TOKENS = "trimmed_tokens"
    FASTER_METHOD = "faster_method"
    ANOTHER_DEPTH = "another_depth"
    LOW_FIRST_POSITION = "low_first_position"
    HIGH_FIRST_POSITION = "high_first_position"
    WASTED_LAST_POSITION = "wasted_last_position"
    ROOM_FOR_LONGER_DRAFT = "room_for_longer_draft"
    LOW_RATE = "low_rate"
    HIGH_RATE = "high_rate"
    DEFAULT_COST = "default_cost"
    COST_OUT_OF_RANGE = "cost_out_of_range"
    FEW_DRAFTS = "few_drafts"
    FEW_REQUESTS = "few_requests"
    WIDE_BOUNDS = "wide_bounds"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something found, for programs and for people."""

    name: FindingName
    severity: Severity
    values: Values
    """The numbers it was found by; ratios between 0 and 1, times in seconds."""
    text: str
    """One or two sentences with these numbers, and what to do."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How something is found, and what is said of it."""

    name: FindingName
    severity: Severity
    given: Callable[[FindingContext], bool]
    """Whether there is enough to look at."""
    look: Callable[[FindingContext], Values | None]
    text: str
    """A format of the values."""

    def apply(self, evidence: FindingContext) -> Finding | None:
        """Return the finding, if there is one."""
        values = self.look(evidence) if self.given(evidence) else None
        if values is None:
            return None
        return Finding(self.name, self.severity, values, fill(self.text, values))


def _broken(name: FindingName, check: Check, text: str) -> Rule:
    return Rule(name, Severity.WARNING, found.always, found.is_broken(check), text)


_LOG = "The exporter's log has the numbers (check_broken)."
_COVERAGE = (
    "{coverage:.3f} of the decode steps had a draft, less than {threshold:g}. The acceptance length of "
    "{length:.2f} is that of those alone; a step gives {effective_tokens:.2f} tokens: go by that."
)
_TRY = "It is a hypothesis: try it and compare."

RULES = (
    _broken(
        FindingName.BROKEN_POSITIONS_ADD_UP,
        Check.POSITIONS_ADD_UP,
        "Twice in a row the accepted tokens of all positions did not add up to the accepted tokens: do not "
        f"trust what is said by position. {_LOG}",
    ),
    _broken(
        FindingName.BROKEN_POSITIONS_DECREASE,
        Check.POSITIONS_DECREASE,
        "Twice in a row a position had more accepted tokens than the one before it, or than there were "
        f"drafts: do not trust what is said by position. {_LOG}",
    ),
    _broken(
        FindingName.BROKEN_ACCEPTED_WITHIN_DRAFTED,
        Check.ACCEPTED_WITHIN_DRAFTED,
        f"Twice in a row more tokens were accepted than drafted: do not trust the acceptance rate. {_LOG}",
    ),
    _broken(
        FindingName.BROKEN_DRAFTED_WITHIN_CONFIGURED,
        Check.DRAFTED_WITHIN_CONFIGURED,
        "Twice in a row more tokens were drafted than the positions allow: if the number of draft tokens "
        f"is configured for this target, correct it. {_LOG}",
    ),
    _broken(
        FindingName.BROKEN_ONE_SERVER,
        Check.ONE_SERVER,
        "Creation times of the counters come back: several servers answer at this address in turn, and "
        "their counters mix. Watch them one by one.",
    ),
    Rule(
        FindingName.SUDDEN_DROP,
        Severity.WARNING,
        found.always,
        found.dropped(DropKind.SUDDEN),
        "Acceptance dropped suddenly: a draft gave {baseline:.2f} tokens, and gives {length:.2f} now. The "
        "verdict and the advice are of a longer time and do not know it yet. Look for what changed: the "
        "requests, their temperature, a release.",
    ),
    Rule(
        FindingName.SLOW_DROP,
        Severity.WARNING,
        found.always,
        found.dropped(DropKind.SLOW),
        "Acceptance has been sinking for hours; a draft gives {length:.2f} tokens now, {baseline:.2f} in the "
        "last half hour. Some defects of servers do this until a restart.",
    ),
    Rule(
        FindingName.STALLED,
        Severity.WARNING,
        found.covered,
        found.stalled,
        "Nothing was drafted for {seconds:.0f} s and more than {least_steps:.0f} decode steps, though it "
        "was before. Look into the server's log; a restart of the server makes it draft again.",
    ),
    Rule(
        FindingName.DRAFTER_DEAD,
        Severity.WARNING,
        found.drafting,
        found.drafter_is_dead,
        "{accepted:.0f} tokens of {drafts:.0f} drafts were accepted: the drafter does not work and only "
        "costs time. Check that it was made for this target (revision, tokenizer, quantisation) and that "
        "prompts fit into its context; until then, switch speculation off.",
    ),
    Rule(
        FindingName.REPETITION,
        Severity.WARNING,
        found.accepting,
        found.repetition,
        "For {seconds:.0f} s position 0 was accepted in {acceptance:.3f} of the drafts, at least "
        "{threshold:g}. So much is typical of a model that repeats itself without end, or of synthetic "
        "acceptance: read some of the answers.",
    ),
    Rule(
        FindingName.CLIFF,
        Severity.WARNING,
        found.accepting,
        found.cliff,
        "Of the drafts that get to position {position:.0f}, {acceptance:.3f} are accepted there, against "
        "{acceptance_before:.3f} at position {position_before:.0f}: more is lost there than drafters "
        "usually lose from one position to the next. Draft {position:.0f} tokens, or find out what breaks "
        "(a drafter trained for fewer tokens, its longest context).",
    ),
    Rule(
        FindingName.ABOVE_CROSSOVER,
        Severity.WARNING,
        found.drafting,
        found.above_crossover,
        "{running:.1f} requests run, and speculation stops paying at {crossover:.1f}. Draft nothing in "
        "large batches (num_speculative_tokens_per_batch_size), or spread the requests over more servers.",
    ),
    Rule(
        FindingName.NO_DEPTH_PAYS,
        Severity.WARNING,
        found.drafting,
        found.no_depth_pays,
        "With a draft token at {draft_cost:.3g} decode steps and a draft at {fixed_cost:.3g} besides, no "
        "number of draft tokens is faster than none. If these costs are right, switch speculation off.",
    ),
    Rule(
        FindingName.KV_PRESSURE,
        Severity.WARNING,
        found.covered,
        found.kv_pressure,
        "{usage:.3f} of the KV cache is in use, more than {threshold:g}, and {preemptions:.0f} requests "
        "were preempted in {seconds:.0f} s. A draft model takes its memory from the cache: give vLLM more "
        "(gpu_memory_utilization), run fewer requests at a time (max_num_seqs), or draft without a model.",
    ),
    Rule(
        FindingName.TOKEN_TIME_TAIL,
        Severity.WARNING,
        found.covered,
        found.token_time_tail,
        "One request in a hundred waits {p99:.3g} s or longer for a token, {ratio:.1f} times the median of "
        "{p50:.3g} s. Look for requests whose drafts are rejected, for preemptions, and for long prompts "
        "beside them (max_num_batched_tokens).",
    ),
    Rule(
        FindingName.DECODE_STEP_TAIL,
        Severity.INFO,
        found.covered,
        found.decode_step_tail,
        "One decode step in a hundred takes {p99:.3g} s or longer, {ratio:.1f} times the median of "
        "{p50:.3g} s. Usually a long prompt shares the step: limit what one step may take in "
        "(max_num_batched_tokens).",
    ),
    Rule(
        FindingName.DRAFTING_PAUSED,
        Severity.INFO,
        found.drafting,
        found.drafting_paused,
        f"{_COVERAGE} This method has a draft for every step, so drafting paused for a part of the window: "
        "it stalled, or nothing is scheduled for batches of some size "
        "(num_speculative_tokens_per_batch_size). See when the drafts stop, and the server's log of then.",
    ),
    Rule(
        FindingName.LOW_COVERAGE,
        Severity.INFO,
        found.drafting,
        found.low_coverage,
        f"{_COVERAGE} An n-gram or suffix drafter proposes only where text repeats itself; if that is rare "
        "here, try another method.",
    ),
    Rule(
        FindingName.TRIMMED_TOKENS,
        Severity.INFO,
        found.accepting,
        found.trimmed_tokens,
        "{lost:.0f} of {counted:.0f} tokens, {share:.3f}, came to nothing: they were accepted beyond the "
        "end of an answer. The acceptance length flatters by that; go by the effective tokens per step. "
        "With answers so short, draft fewer tokens.",
    ),
    Rule(
        FindingName.FASTER_METHOD,
        Severity.INFO,
        found.drafting,
        found.faster_method,
        "Another arm of the experiment serves this model by another method {speedup:.2f} times as fast as "
        "the baseline, at least {speedup_lower:.2f}; this one is {own_speedup:.2f} times as fast, at most "
        "{own_speedup_upper:.2f}. Switch to that method, on this engine first.",
    ),
    Rule(
        FindingName.ANOTHER_DEPTH,
        Severity.INFO,
        found.drafting,
        found.another_depth,
        "{recommended_tokens:plural draft token} instead of {tokens:.0f} should make decoding {speedup:.2f} "
        "times as fast as without speculation, and not {present_speedup:.2f} times "
        f"(num_speculative_tokens). {_TRY}",
    ),
    Rule(
        FindingName.LOW_FIRST_POSITION,
        Severity.INFO,
        found.accepting,
        found.low_first_position,
        "Position 0 is accepted in {acceptance:.3f} of the drafts, less than {threshold:g}: the drafter "
        "often misses the very next token. No number of draft tokens mends that; a drafter trained for "
        "this target and these texts does.",
    ),
    Rule(
        FindingName.HIGH_FIRST_POSITION,
        Severity.INFO,
        found.accepting,
        found.high_first_position,
        "Position 0 is accepted in {acceptance:.3f} of the drafts, more than {threshold:g}: the drafter "
        "fits the target well. Nothing needs to be done.",
    ),
    Rule(
        FindingName.WASTED_LAST_POSITION,
        Severity.INFO,
        found.accepting,
        found.wasted_last_position,
        "The last of {tokens:.0f} positions is accepted in {acceptance:.3f} of the drafts, less than "
        "{threshold:g}. By the rule of thumb it is wasted: draft fewer tokens, unless drafting costs next "
        "to nothing.",
    ),
    Rule(
        FindingName.ROOM_FOR_LONGER_DRAFT,
        Severity.INFO,
        found.accepting,
        found.room_for_longer_draft,
        "The last of {tokens:.0f} positions is accepted in {acceptance:.3f} of the drafts, more than "
        f"{{threshold:g}}: one more token may pay. {_TRY}",
    ),
    Rule(
        FindingName.LOW_RATE,
        Severity.INFO,
        found.accepting,
        found.low_rate,
        "The acceptance rate is {rate:.3f}; below {threshold:g} operators call it poor. The rate falls "
        "with the number of draft tokens, {tokens:.0f} here, and a long draft may pay all the same: go by "
        "the verdict.",
    ),
    Rule(
        FindingName.HIGH_RATE,
        Severity.INFO,
        found.accepting,
        found.high_rate,
        "The acceptance rate is {rate:.3f}; above {threshold:g} operators call it good. It says nothing of "
        "what drafting {tokens:.0f} tokens costs, and may be slower all the same: go by the verdict.",
    ),
    Rule(
        FindingName.DEFAULT_COST,
        Severity.INFO,
        found.drafting,
        found.default_cost,
        "The verdict assumes what the method usually costs: a draft token {draft_cost:.3g} decode steps, "
        "and a draft {fixed_cost:.3g} besides. Say what it costs here: in the configuration, "
        "cost.draft_cost_ratio, or cost.draft_parameters and cost.target_parameters.",
    ),
    Rule(
        FindingName.COST_OUT_OF_RANGE,
        Severity.INFO,
        found.drafting,
        found.cost_out_of_range,
        "What drafting costs is known for {known_at:.1f} running requests, and {running:.1f} run. It holds "
        "between half and twice the load it is known for, so nothing is called harmful: measure it at this "
        "load too (cost.loads).",
    ),
    Rule(
        FindingName.FEW_DRAFTS,
        Severity.INFO,
        found.covered,
        found.too_few_drafts,
        "{drafts:.0f} drafts are fewer than the {threshold:.0f} that a verdict takes. Wait for more "
        "requests, or keep a longer window.",
    ),
    Rule(
        FindingName.FEW_REQUESTS,
        Severity.INFO,
        found.drafting,
        found.too_few_requests,
        "{requests:.1f} requests passed through the window one after the other. It takes {threshold:g} to "
        "say how sure the figures are; until then nothing is called harmful and nothing is advised, and "
        "with fewer than {least:g} there is no verdict. A longer window sees more.",
    ),
    Rule(
        FindingName.WIDE_BOUNDS,
        Severity.INFO,
        found.drafting,
        found.too_unsure,
        "The acceptance length of {length:.2f} lies between {lower:.2f} and {upper:.2f}, too wide for a "
        "verdict: the requests differ much. Wait for more of them, or keep a longer window.",
    ),
)


def findings(evidence: FindingContext) -> tuple[Finding, ...]:
    """Return everything found, in the order of the table: faults first, reasons for doubt last."""
    applied = (rule.apply(evidence) for rule in RULES)
    return tuple(finding for finding in applied if finding is not None)
