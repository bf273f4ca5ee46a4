"""Figure table: ONE row for each figure of a window.

Metrics, JSON, the page, reports, comparisons and the reference take a figure from its row. A
figure is the ratio of two sums of the window, or the attribute of ``WindowEvaluation`` that ``value`` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from operator import add, sub
from typing import Final, NamedTuple

from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.figures.estimate import Estimate, ratio
from spec_decode_exporter.window.engine_windows import NANO, Means, Window, columns, scaled, sum_of
from spec_decode_exporter.window.ring import Increments


class Unit(Enum):
    """Unit of a figure; pages and reports choose the number format by it."""

    SHARE = auto()  # a part of a whole, between 0 and 1
    FACTOR = auto()  # a speed relative to another
    NUMBER = auto()  # a dimensionless number of the size of a few
    TOKENS = auto()
    SECONDS = auto()
    PER_SECOND = auto()
    REQUESTS = auto()


SHARE, FACTOR, NUMBER, TOKENS, SECONDS, PER_SECOND, REQUESTS = Unit


class Line(NamedTuple):
    """Line of a figure in a report or a comparison; without a section it is measured for JSON alone."""

    section: str = ""
    name: str = ""
    meaning: str = ""
    place: int = 100  # rank within its section; lines of equal rank stand in the order of the table


Value = Callable[[WindowEvaluation], float | None]
Values = Callable[[WindowEvaluation], Sequence[float | None]]
_PARTS: Final = {
    "decoded_tokens": ("generation_tokens", "first_tokens"),
    "rejected_tokens": ("draft_tokens", "accepted_tokens"),
}
"""Sums that are the difference of two counters."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure: its metric is ``spec_decode_<key>``, its JSON field ``<key>``."""

    unit: Unit
    key: str
    label: str  # name on the page
    help: str  # HELP of the metric and description of the JSON field: one sentence, at most 120 characters
    over: tuple[str, str] | None = None
    """Numerator and denominator: sums of a window, by the names that ``term`` takes."""
    value: Value | None = None  # formula; None: numerator over denominator
    each: Values | None = None  # formula of a figure with one number for each ``index``
    index: str = ""  # label of the place in such a list
    bounds: Callable[[WindowEvaluation], Estimate | None] | None = None  # its 95 % bounds; None: it has none
    highest: float = inf  # highest possible value, which limits its bounds in comparisons
    needs: tuple[str, ...] = ()  # counters that a figure without ``over`` is computed from, and ``positions``
    counts: str = "of"  # words between the counts of numerator and denominator on the page
    report: Line | None = None
    compared: Line | None = None
    """Row in the tables of ``observe --against``; None: the figure is not measured for references."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Counters and gauges that it is computed from, and ``positions``."""
        parts = [part for name in self.over or () for part in _PARTS.get(name, (name,))]
        return tuple(name for name in parts if name not in {"seconds", "polls"}) or self.needs

    def of(self, evaluation: WindowEvaluation) -> float | None:
        """Return the value; None if it is unknown."""
        if self.value is not None:
            return self.value(evaluation)
        above, below = self.over or ("", "")
        return ratio(term(evaluation.window, above), term(evaluation.window, below))


def term(window: Window, name: str) -> float | None:
    """Return a sum of the window by name: a counter, its seconds or its polls; a gauge's sum over polls."""
    if name in Means._fields:
        mean: float | None = getattr(window.mean, name)
        return None if mean is None else mean * window.polls
    total: float | None = getattr(window if name in {"seconds", "polls"} else window.total, name)
    return total / NANO if total is not None and name.endswith("_nanoseconds") else total


def columns_of(window: Window, increments: Increments, name: str) -> Sequence[float]:
    """Return the same sum in each of the window's increments, merged or not.

    Times and gauges of engines side by side add up; here their sum is that of the window.
    """
    if name == "seconds":
        times = scaled(increments, "covered_nanoseconds")
        covered = sum(times)
        return [each * window.seconds / covered for each in times] if covered else times
    if name in Means._fields:
        sums, mean = scaled(increments, name), getattr(window.mean, name) or 0.0
        total, number = sum(sums), sum_of(increments, "polls")
        return [each * mean * number / total for each in sums] if total else sums
    if name == "decoded_tokens" and None in {window.total.generation_tokens, window.total.first_tokens}:
        return list(map(add, *columns(increments, "decode_steps", "accepted_tokens")))
    first, *others = columns(increments, *_PARTS.get(name, (name,)))
    counts: Sequence[float] = list(map(sub, first, *others)) if others else first
    return [count / NANO for count in counts] if name.endswith("_nanoseconds") else counts


_DECODING: Final = ("generation_tokens", "first_tokens", "decode_steps")
WORK: Final = (*_DECODING, "drafts", "draft_tokens")  # counts that a speed-up needs
_POSITIONS: Final = ("positions", "drafts")

# fmt: off
FIGURES: Final = (
    Figure(SHARE, "draft_acceptance_ratio", "Acceptance rate", "Accepted tokens over draft tokens in the window.", ("accepted_tokens", "draft_tokens"), lambda its: its.draft_acceptance_ratio, bounds=lambda its: its.draft_acceptance_bounds, highest=1.0, report=Line("Acceptance", "acceptance rate", "of the draft tokens"), compared=Line("Acceptance", "acceptance rate", place=1)),
    Figure(TOKENS, "acceptance_length_tokens", "Acceptance length", "Mean tokens of a draft in the window, bonus token included: 1 + accepted over drafts.", ("accepted_tokens", "drafts"), lambda its: its.acceptance_length_tokens, bounds=lambda its: its.acceptance_length_bounds, counts="in drafts:", report=Line("Acceptance", "acceptance length", "tokens, bonus included"), compared=Line("Acceptance", "acceptance length", place=2)),
    Figure(FACTOR, "estimated_speedup_ratio", "Estimated speed-up", "Speed relative to no speculation in the window, at the assumed cost; below 1 is slower.", value=lambda its: its.estimated_speedup_ratio, bounds=lambda its: its.speedup_bounds, needs=WORK),
    Figure(FACTOR, "speedup_ceiling_ratio", "Speed-up if drafting were free", "Speed-up in the window if drafting and verifying cost nothing.", value=lambda its: its.speedup_ceiling_ratio, needs=(*_DECODING, "accepted_tokens", "drafts")),
    Figure(SHARE, "break_even_acceptance_ratio", "Break-even acceptance rate", "Acceptance rate above which speculation pays in the window, at the assumed cost.", value=lambda its: its.break_even_acceptance_ratio, needs=("drafts", "draft_tokens", "decode_steps")),
    Figure(NUMBER, "break_even_cost_ratio", "Break-even cost of a draft token", "Cost of a draft token in plain decode steps below which speculation pays in the window.", value=lambda its: its.break_even_cost_ratio, bounds=lambda its: its.break_even_cost_bounds, needs=WORK),
    Figure(PER_SECOND, "gained_tokens_per_second_per_gigabyte", "Tokens gained for each GB of drafter", "Generated tokens per second gained by speculation for each GB of the drafter's weights.", value=lambda its: its.memory_return, bounds=lambda its: its.memory_return_bounds, needs=WORK),
    Figure(SHARE, "position_acceptance_ratio", "Acceptance up to the position", "Share of the window's drafts that are accepted up to and including the position.", each=lambda its: its.positions.acceptance, index="position", needs=_POSITIONS),
    Figure(SHARE, "position_conditional_acceptance_ratio", "Conditional acceptance at the position", "Share accepted at the position, of drafts of the window accepted up to the one before.", each=lambda its: its.positions.conditional, index="position", needs=_POSITIONS),
    Figure(NUMBER, "acceptance_decay_ratio", "Decay from position to position", "Pooled conditional acceptance after the first position in the window; 1 is no decay.", value=lambda its: its.positions.decay, needs=("positions",)),
    Figure(SHARE, "accepted_length_ratio", "Accepted length", "Share of the window's drafts with exactly this number of accepted tokens, 0 to K.", each=lambda its: its.positions.lengths, index="length", needs=_POSITIONS),
    Figure(TOKENS, "draft_length_tokens", "Draft length", "Mean tokens of a draft in the window; below K if drafts are shorter.", ("draft_tokens", "drafts"), counts="in drafts:", compared=Line("Acceptance", "draft length", place=4)),
    Figure(SHARE, "coverage_ratio", "Decode steps with a draft", "Share of the window's decode steps that had a draft.", ("drafts", "decode_steps"), highest=1.0, compared=Line("Acceptance", "steps with a draft", place=5)),
    Figure(TOKENS, "effective_tokens_per_step", "Tokens per decode step", "Mean tokens that a decode step of the window gives, with a draft or without.", ("decoded_tokens", "decode_steps"), lambda its: its.effective_tokens_per_step, counts="in steps:", report=Line("Acceptance", "tokens per step"), compared=Line("Acceptance", "tokens per step", place=3)),
    Figure(PER_SECOND, "drafts_per_second", "Drafts", "Drafts per second in the window.", ("drafts", "seconds"), compared=Line()),
    Figure(PER_SECOND, "draft_tokens_per_second", "Tokens drafted", "Draft tokens per second in the window.", ("draft_tokens", "seconds"), report=Line("Waste", "drafted", "tokens a second"), compared=Line()),
    Figure(PER_SECOND, "accepted_tokens_per_second", "Tokens accepted", "Accepted draft tokens per second in the window.", ("accepted_tokens", "seconds"), report=Line("Waste", "accepted", "tokens a second"), compared=Line()),
    Figure(PER_SECOND, "rejected_tokens_per_second", "Tokens rejected", "Rejected draft tokens per second in the window.", ("rejected_tokens", "seconds"), report=Line("Waste", "wasted", "tokens a second")),
    Figure(PER_SECOND, "generation_tokens_per_second", "Tokens generated", "Generated tokens per second in the window.", ("generation_tokens", "seconds"), compared=Line("Speed", "tokens per second", place=3)),
    Figure(SECONDS, "step_seconds", "Time of a decode step", "Mean time of a decode step of one request in the window, in seconds.", ("decode_nanoseconds", "decode_steps"), counts="s in steps:", compared=Line("Speed", "time per step", place=2)),
    Figure(SECONDS, "time_per_output_token_seconds", "Time per output token", "Mean time per output token after the first in the window, by token, in seconds.", ("decode_nanoseconds", "decoded_tokens"), lambda its: its.time_per_output_token_seconds, counts="s in tokens:", report=Line("Time", "time per output token", "mean, by token"), compared=Line("Speed", "time per output token", place=1)),
    Figure(SECONDS, "time_to_first_token_seconds", "Time to first token", "Mean time to first token in the window, time in the queue included, in seconds.", ("first_token_nanoseconds", "first_tokens"), counts="s in requests:", report=Line("Time", "time to first token", "mean, by request", 1), compared=Line("Speed", "time to first token", place=4)),
    Figure(SHARE, "first_token_time_ratio", "Time before the first token", "Share of the requests' time in the window before the first token; the rest is decoding.", value=lambda its: its.request_seconds and ratio(its.request_seconds[0], sum(its.request_seconds)), needs=("first_token_nanoseconds", "decode_nanoseconds"), highest=1.0, report=Line("Time", "before the first token", "of the requests' time", 2)),
    Figure(REQUESTS, "running_requests", "Running requests", "Mean running requests over the polls of the window.", ("running_requests", "polls"), lambda its: its.window.mean.running_requests, compared=Line("Load and work", "running requests", place=1)),
    Figure(REQUESTS, "waiting_requests", "Waiting requests", "Mean waiting requests over the polls of the window.", ("waiting_requests", "polls"), lambda its: its.window.mean.waiting_requests, compared=Line("Load and work", "waiting requests", place=2)),
    Figure(SHARE, "kv_cache_usage_ratio", "KV cache in use", "Mean share of the KV cache in use over the polls of the window.", ("kv_cache_usage_ratio", "polls"), lambda its: its.window.mean.kv_cache_usage_ratio, highest=1.0, compared=Line("Load and work", "KV cache in use", place=7)),
    Figure(SHARE, "prefix_cache_hit_ratio", "Prefix cache hits", "Share of the window's prompt tokens that the prefix cache held.", ("prefix_cache_hits", "prefix_cache_queries"), highest=1.0, compared=Line("Load and work", "prompt tokens from the cache", place=6)),
    Figure(PER_SECOND, "preemptions_per_second", "Preemptions", "Preemptions per second in the window.", ("preemptions", "seconds")),
)
MEASURED: Final = (
    Figure(REQUESTS, "requests_per_second", "Requests", "Requests per second that began in the window.", ("first_tokens", "seconds"), compared=Line("Load and work", "requests per second", place=3)),
    Figure(NUMBER, "output_tokens_per_request", "Tokens per answer", "Mean tokens per answer in the window.", ("generation_tokens", "first_tokens"), compared=Line("Load and work", "tokens per answer", place=5)),
    Figure(NUMBER, "prompt_tokens_per_request", "Tokens per prompt", "Mean tokens per prompt in the window.", ("prompt_tokens", "first_tokens"), compared=Line("Load and work", "tokens per prompt", place=4)),
)
"""Figures of comparisons alone, without a metric and a JSON field."""
# fmt: on
FIGURE: Final = {figure.key: figure for figure in (*FIGURES, *MEASURED)}  # every figure by its key
COMPARED: Final = tuple(figure for figure in FIGURE.values() if figure.compared is not None)
"""Figures that references measure."""
