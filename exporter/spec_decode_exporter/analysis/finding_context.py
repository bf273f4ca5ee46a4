"""What findings are found in, and the questions they ask. An answer is the numbers that make the finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from spec_decode_exporter.analysis.cost import Cost, CostSource
from spec_decode_exporter.analysis.depth import Depth, present_depth
from spec_decode_exporter.analysis.drops.drop import DropKind, DropStatus
from spec_decode_exporter.analysis.experiments.faster_method import FasterMethod
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.recommendation import is_above, is_change
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.analysis.speculation_state import State, drafts_what_it_finds, is_whole
from spec_decode_exporter.analysis.statistics.ratio_bounds import LEAST_REQUESTS, passing_requests
from spec_decode_exporter.analysis.verdict import LEAST_REQUESTS as LEAST_FOR_VERDICT
from spec_decode_exporter.analysis.verdict import Verdict, half_width
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.figures.acceptance import (
    acceptance_length_tokens,
    coverage_ratio,
    draft_acceptance_ratio,
    effective_tokens_per_step,
)
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.figures.latency import decoded_tokens, quantile
from spec_decode_exporter.figures.positions import least_drafted, tells_positions
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.figures.server_load import drafting_requests, mean
from spec_decode_exporter.scrape.page.engine_table import Counter, Gauge, Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.ledger import Window

Values = Mapping[str, float]

DEAD = 0.01
"""With fewer accepted tokens a draft than this, a drafter does not work at all."""
TRIMMED = 0.05
"""From this share of tokens that came to nothing on, the acceptance length misleads."""
HIGH_FIRST_POSITION = 0.90
LOW_RATE = 0.40
HIGH_RATE = 0.60
"""What operators quote, whatever is drafted and whatever it costs."""
TAIL_OBSERVATIONS = 100
"""The 99th percentile of fewer is only the slowest one."""


@dataclass(frozen=True, slots=True)
class FindingContext:
    """What is known of an engine; everything is of the longest window."""

    window: Window
    policy: Policy
    state: State
    verdict: Verdict
    length: Estimate | None = None
    """Bounds of the acceptance length."""
    cost: Cost | None = None
    depth: Depth | None = None
    """The number of draft tokens that is recommended."""
    crossover: float | None = None
    """The running requests from which on speculation stops paying."""
    latencies: Mapping[Latency, Buckets] = field(default_factory=dict)
    broken: frozenset[Check] = frozenset()
    speculation: Speculation = field(default_factory=Speculation)
    drops: DropStatus = field(default_factory=DropStatus)
    recent_length: float | None = None
    """The acceptance length over the shortest window."""
    faster: FasterMethod | None = None
    """Another method that is beyond doubt faster, by an experiment."""

    @property
    def drafts(self) -> int:
        """D; 0 where drafts are not counted."""
        return self.window[Counter.DRAFTS] or 0

    @property
    def tokens(self) -> int:
        """K."""
        return len(self.window.positions)

    @property
    def running(self) -> float | None:
        """The running requests that what drafting costs depends on."""
        return drafting_requests(self.window)

    def survival(self, position: int) -> float | None:
        """Return p_i; None where the engine does not tell its positions. -1 is the last one."""
        if not self.tokens or not tells_positions(self.window):
            return None
        return ratio(self.window.positions[position], self.drafts)


# What a finding needs before it is looked for.


def always(_: FindingContext) -> bool:
    """Look for it in whatever there is."""
    return True


def covered(evidence: FindingContext) -> bool:
    """Look for it where the window is long enough to judge by."""
    return not evidence.window.partial


def drafting(evidence: FindingContext) -> bool:
    """Look for it where so much was drafted that there is something to say."""
    return covered(evidence) and evidence.drafts >= evidence.policy.min_drafts


def accepting(evidence: FindingContext) -> bool:
    """Look for it where the drafter works; of one that does not, nothing else is worth saying."""
    return drafting(evidence) and drafter_is_dead(evidence) is None


# What is found. None is nothing.


def dropped(kind: DropKind) -> Callable[[FindingContext], Values | None]:
    """Look for a drop of a kind that is going on."""

    def look(evidence: FindingContext) -> Values | None:
        baseline, length = evidence.drops.baseline_length, evidence.recent_length
        if not evidence.drops.dropped.get(kind) or baseline is None or length is None:
            return None
        return {"baseline": baseline, "length": length}

    return look


def stalled(evidence: FindingContext) -> Values | None:
    """It drafted before, and does not now."""
    if evidence.state is not State.STALLED:
        return None
    return {"seconds": evidence.window.seconds, "least_steps": evidence.policy.min_drafts}


def too_few_drafts(evidence: FindingContext) -> Values | None:
    """It drafts, but so little that there is no verdict."""
    least = evidence.policy.min_drafts
    return {"drafts": evidence.drafts, "threshold": least} if 0 < evidence.drafts < least else None


def too_unsure(evidence: FindingContext) -> Values | None:
    """The bounds are so wide that there is no verdict."""
    bounds = evidence.length
    if bounds is None or half_width(bounds) <= evidence.policy.max_half_width * bounds.value:
        return None
    return {"length": bounds.value, "lower": bounds.lower, "upper": bounds.upper}


def too_few_requests(evidence: FindingContext) -> Values | None:
    """Too few requests pass through the window for bounds."""
    requests = passing_requests(evidence.window)
    if evidence.length is not None or requests is None or requests >= LEAST_REQUESTS:
        return None
    return {"requests": requests, "threshold": LEAST_REQUESTS, "least": LEAST_FOR_VERDICT}


def drafter_is_dead(evidence: FindingContext) -> Values | None:
    """Next to nothing that is drafted is accepted."""
    accepted = evidence.window[Counter.ACCEPTED_TOKENS]
    share = ratio(accepted, evidence.drafts)
    if accepted is None or share is None or share >= DEAD:
        return None
    return {"accepted": accepted, "drafts": evidence.drafts}


def repetition(evidence: FindingContext) -> Values | None:
    """The first position is accepted nearly always, over all of the window."""
    first, least = evidence.survival(0), evidence.policy.findings.repetition_first_position
    if first is None or first < least or not is_whole(evidence.window):
        return None
    return {"acceptance": first, "threshold": least, "seconds": evidence.window.seconds}


def cliff(evidence: FindingContext) -> Values | None:
    """Some position is accepted far less often than the one before, given that the draft got there."""
    reached = (evidence.drafts, *evidence.window.positions)
    found = (_cliff_at(evidence, position, reached) for position in range(1, evidence.tokens))
    return next((values for values in found if values), None)


def _cliff_at(evidence: FindingContext, position: int, reached: Sequence[int]) -> Values | None:
    """Compare q_i with q_{i-1}, where enough drafts got there to tell.

    A draft may end before position i; as many as can have done so prove nothing about it. ``reached`` is how
    many drafts got to each position, and beyond the last.
    """
    earlier, before, here = reached[position - 1 : position + 2]
    tried = before - (evidence.drafts - least_drafted(evidence.window, position))
    before_ratio, least = ratio(before, earlier), evidence.policy.findings.cliff_ratio
    if before < evidence.policy.min_drafts or before_ratio is None or here >= least * before_ratio * tried:
        return None
    return {
        "position": position,
        "acceptance": here / before,
        "position_before": position - 1,
        "acceptance_before": before_ratio,
    }


def low_first_position(evidence: FindingContext) -> Values | None:
    """The first position is accepted too rarely."""
    return _below("acceptance", evidence.survival(0), evidence.policy.findings.low_first_position)


def high_first_position(evidence: FindingContext) -> Values | None:
    """The first position is as good as operators want it."""
    return _above("acceptance", evidence.survival(0), HIGH_FIRST_POSITION)


def low_rate(evidence: FindingContext) -> Values | None:
    """The acceptance rate is what operators call poor."""
    found = _below("rate", draft_acceptance_ratio(evidence.window), LOW_RATE)
    return found and {**found, "tokens": evidence.tokens}


def high_rate(evidence: FindingContext) -> Values | None:
    """The acceptance rate is what operators call good."""
    found = _above("rate", draft_acceptance_ratio(evidence.window), HIGH_RATE)
    return found and {**found, "tokens": evidence.tokens}


def wasted_last_position(evidence: FindingContext) -> Values | None:
    """The last position is accepted too rarely, of the drafts that surely had one."""
    tokens = evidence.tokens
    if tokens < 2 or not tells_positions(evidence.window):  # noqa: PLR2004  one token has no other to keep
        return None
    drafted = least_drafted(evidence.window, tokens - 1)
    worth = ratio(evidence.window.positions[-1], drafted)
    found = _below("acceptance", worth, evidence.policy.findings.wasted_last_position)
    return found and {**found, "tokens": tokens}


def room_for_longer_draft(evidence: FindingContext) -> Values | None:
    """The last position is accepted so often that one more may pay, as far as the cost does not deny it."""
    last, tokens = evidence.survival(-1), evidence.tokens
    depth, bad = evidence.depth, evidence.verdict in (Verdict.POOR, Verdict.HARMFUL)
    is_open = not bad if depth is None else depth.tokens > tokens
    found = _above("acceptance", last, evidence.policy.depth.increase_above) if is_open else None
    return found and {**found, "tokens": tokens}


def another_depth(evidence: FindingContext) -> Values | None:
    """Another number of tokens is recommended, and so much faster that it is worth a change."""
    window, cost, depth = evidence.window, evidence.cost, evidence.depth
    present = None if cost is None else present_depth(window, cost)
    if depth is None or present is None:
        return None
    if not is_change(window, evidence.verdict, cost, depth, evidence.policy.depth.tolerance):
        return None
    return {
        "tokens": present.tokens,
        "recommended_tokens": depth.tokens,
        "speedup": depth.speedup,
        "present_speedup": present.speedup,
    }


def no_depth_pays(evidence: FindingContext) -> Values | None:
    """Whatever number of tokens is drafted, none is faster than no speculation."""
    cost = evidence.cost
    if cost is None or evidence.depth is None or evidence.depth.tokens:
        return None
    return {"draft_cost": cost.draft_cost_ratio, "fixed_cost": cost.fixed_cost_ratio}


def above_crossover(evidence: FindingContext) -> Values | None:
    """More requests run than speculation pays for."""
    running, crossover = evidence.running, evidence.crossover
    if running is None or crossover is None or not is_above(crossover, evidence.window):
        return None
    return {"running": running, "crossover": crossover}


def default_cost(evidence: FindingContext) -> Values | None:
    """Nobody said what drafting costs here."""
    cost = evidence.cost
    if cost is None or cost.source is not CostSource.DEFAULT:
        return None
    return {"draft_cost": cost.draft_cost_ratio, "fixed_cost": cost.fixed_cost_ratio}


def cost_out_of_range(evidence: FindingContext) -> Values | None:
    """What drafting costs is known for another load than the present one."""
    cost, running = evidence.cost, evidence.running
    if cost is None or cost.running_requests is None or running is None or cost.speaks_for(running):
        return None
    return {"running": running, "known_at": cost.running_requests}


def faster_method(evidence: FindingContext) -> Values | None:
    """Another arm of an experiment drafts by another method and is beyond doubt faster."""
    faster = evidence.faster
    if faster is None:
        return None
    return {
        "speedup": faster.speedup.value,
        "speedup_lower": faster.speedup.lower,
        "own_speedup": faster.own.value,
        "own_speedup_upper": faster.own.upper,
    }


def low_coverage(evidence: FindingContext) -> Values | None:
    """Many steps had no draft, as is the way of a search for text that repeats itself."""
    return None if _should_always_draft(evidence) else _coverage(evidence)


def drafting_paused(evidence: FindingContext) -> Values | None:
    """Many steps had no draft, though the method has one for every step."""
    return _coverage(evidence) if _should_always_draft(evidence) else None


def _should_always_draft(evidence: FindingContext) -> bool:
    """Return whether the method has a draft for every step; of an unknown one nobody can say."""
    method = evidence.speculation.method
    return bool(method) and not drafts_what_it_finds(method)


def _coverage(evidence: FindingContext) -> Values | None:
    """Return how much the acceptance length tells of; nothing where a schedule says not to draft at times."""
    if evidence.speculation.schedule.pauses:
        return None
    window = evidence.window
    length, effective = acceptance_length_tokens(window), effective_tokens_per_step(window)
    found = _below("coverage", coverage_ratio(window), evidence.policy.findings.low_coverage)
    if found is None or length is None or effective is None:
        return None
    return {**found, "length": length, "effective_tokens": effective}


def trimmed_tokens(evidence: FindingContext) -> Values | None:
    """Tokens were accepted that nobody got: a step gives one token, and those of its draft that survive."""
    steps, accepted = evidence.window[Counter.DECODE_STEPS], evidence.window[Counter.ACCEPTED_TOKENS]
    decoded = decoded_tokens(evidence.window)
    if steps is None or accepted is None or decoded is None:
        return None
    lost = steps + accepted - decoded
    share = ratio(lost, steps + accepted)
    return {"lost": lost, "counted": steps + accepted, "share": share} if share and share > TRIMMED else None


def token_time_tail(evidence: FindingContext) -> Values | None:
    """Some requests wait far longer for a token than most."""
    return _tail(evidence, Latency.TIME_PER_OUTPUT_TOKEN)


def decode_step_tail(evidence: FindingContext) -> Values | None:
    """Some decode steps take far longer than most."""
    return _tail(evidence, Latency.DECODE_STEP)


def kv_pressure(evidence: FindingContext) -> Values | None:
    """The key-value cache is full, and requests are put off because of it."""
    preemptions, least = evidence.window[Counter.PREEMPTIONS], evidence.policy.findings.kv_cache_usage
    found = _above("usage", mean(evidence.window, Gauge.KV_CACHE_USAGE), least)
    if found is None or not preemptions:
        return None
    return {**found, "preemptions": preemptions, "seconds": evidence.window.seconds}


def is_broken(check: Check) -> Callable[[FindingContext], Values | None]:
    """Return whether the counters contradict each other in this way; the log has the numbers."""
    return lambda evidence: {} if check in evidence.broken else None


def _below(name: str, value: float | None, threshold: float) -> Values | None:
    return {name: value, "threshold": threshold} if value is not None and value < threshold else None


def _above(name: str, value: float | None, threshold: float) -> Values | None:
    return {name: value, "threshold": threshold} if value is not None and value > threshold else None


def _tail(evidence: FindingContext, latency: Latency) -> Values | None:
    buckets = evidence.latencies.get(latency)
    if buckets is None or not buckets.counts or buckets.counts[-1] < TAIL_OBSERVATIONS:
        return None
    usual, slow = quantile(0.5, buckets), quantile(0.99, buckets)
    times = ratio(slow, usual)
    if slow is None or usual is None or times is None or times <= evidence.policy.findings.tail_ratio:
        return None
    return {"p50": usual, "p99": slow, "ratio": times}
