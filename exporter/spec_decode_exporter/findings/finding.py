"""Findings: hints and faults beside the verdict.

A finding is a rule of thumb, a fault, or a reason for an uncertain verdict. It never changes the verdict. Its
text consists of numbers and fixed words; it never contains text of a server.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spec_decode_exporter.findings.finding_context import Values


class Severity(StrEnum):
    """Urgency of a finding."""

    INFO = "info"
    """Useful when reading the verdict."""
    WARNING = "warning"
    """A fault or an obstacle: an operator should act."""


class FindingName(StrEnum):
    """Name of a finding; each has one row in ``RULES``."""

    BROKEN_POSITIONS_ADD_UP = "broken_positions_add_up"
    BROKEN_POSITIONS_DECREASE = "broken_positions_decrease"
    BROKEN_ACCEPTED_WITHIN_DRAFTED = "broken_accepted_within_drafted"
    BROKEN_DRAFTED_WITHIN_CONFIGURED = "broken_drafted_within_configured"
    BROKEN_ONE_SERVER = "broken_one_server"
    SUDDEN_DROP = "sudden_drop"
    DRAFTING_DROP = "drafting_drop"
    SLOW_DROP = "slow_drop"
    STALLED = "stalled"
    DRAFTER_DEAD = "drafter_dead"
    REPETITION = "repetition"
    CLIFF = "cliff"
    BELOW_EXPECTATION = "below_expectation"
    ABOVE_CROSSOVER = "above_crossover"
    NO_DEPTH_PAYS = "no_depth_pays"
    UNCLEAR_COST = "unclear_cost"
    KV_PRESSURE = "kv_pressure"
    PREFIX_CACHE_LOST = "prefix_cache_lost"
    TOKEN_TIME_TAIL = "token_time_tail"  # noqa: S105 - a token of text
    DECODE_STEP_TAIL = "decode_step_tail"
    SCHEDULE_FLIPS = "schedule_flips"
    DRAFTING_PAUSED = "drafting_paused"
    LOW_COVERAGE = "low_coverage"
    LOSSY_REJECTION = "lossy_rejection"
    TRIMMED_TOKENS = "trimmed_tokens"
    FASTER_METHOD = "faster_method"
    ANOTHER_DEPTH = "another_depth"
    LOW_FIRST_POSITION = "low_first_position"
    HIGH_FIRST_POSITION = "high_first_position"
    WASTED_LAST_POSITION = "wasted_last_position"
    ROOM_FOR_LONGER_DRAFT = "room_for_longer_draft"
    LOW_RATE = "low_rate"
    HIGH_RATE = "high_rate"
    UNKNOWN_COST = "unknown_cost"
    TYPICAL_COST = "typical_cost"
    COST_WITHOUT_LOAD = "cost_without_load"
    COST_OUT_OF_RANGE = "cost_out_of_range"
    FEW_DRAFTS = "few_drafts"
    FEW_REQUESTS = "few_requests"
    WIDE_BOUNDS = "wide_bounds"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, for programs and for people."""

    name: FindingName
    severity: Severity
    values: Values
    """Numbers of its condition; ratios between 0 and 1, times in seconds."""
    text: str
    """One or two sentences with these numbers, and the remedy."""
