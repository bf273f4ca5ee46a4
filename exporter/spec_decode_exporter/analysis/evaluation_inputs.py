"""Inputs of an evaluation: knowledge of an engine besides its windows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spec_decode_exporter.analysis.drops.drop import DropStatus
from spec_decode_exporter.analysis.evaluated_window import (
    Change,
)
from spec_decode_exporter.analysis.experiments.faster_method import FasterMethod
from spec_decode_exporter.analysis.integrity import Check
from spec_decode_exporter.analysis.measured_cost import MeasuredCost
from spec_decode_exporter.analysis.request_baseline import RequestBaseline
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.cost_settings import CostSettings
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.config.reference_settings import ReferenceSettings
from spec_decode_exporter.scrape.page.engine_table import Latency
from spec_decode_exporter.scrape.page.sample import Buckets
from spec_decode_exporter.window.ledger import Window


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Knowledge of an engine besides its counters, and the thresholds of its evaluation."""

    speculation: Speculation = field(default_factory=Speculation)
    cost: CostSettings | None = None
    policy: Policy = field(default_factory=Policy)
    reference: ReferenceSettings | None = None
    """Acceptance to compare with; None if unknown."""


@dataclass(frozen=True, slots=True)
class LastDrafts:
    """Newest drafts with a verdict: their acceptance counts while a schedule drafts nothing."""

    window: Window
    """Evaluated window whose newest poll had drafts."""
    wall: float
    """Unix time of that poll."""
    changes: int
    """Number of changes and window resets until then; a later one outdates the acceptance."""


@dataclass(frozen=True, slots=True)
class EvaluationInputs:
    """Inputs of an evaluation besides the windows."""

    assumptions: Assumptions
    latencies: Mapping[Latency, Buckets]
    broken: frozenset[Check]
    speculates: bool
    drafted_before: bool
    """True if the engine drafted since the server's process began."""
    costs: Sequence[MeasuredCost]
    """Measured cost of a draft token, by load."""
    undecided: bool = False
    """True if it is not known yet whether the engine speculates."""
    recent: Window | None = None
    """Window of ``STALL_SECONDS`` in which a stall shows; None if the engine drafts now."""
    drops: DropStatus = field(default_factory=DropStatus)
    faster: FasterMethod | None = None
    """Another method for the same model that is significantly faster (95 %), by an experiment."""
    request_baseline: RequestBaseline | None = None
    """Requests of the same model without speculation; None if unknown."""
    change: Change | None = None
    """Last detected change; None without one since the windows began."""
    changes: int = 0
    """Number of changes and window resets so far."""
    wall: float = 0.0
    """Unix time of the newest poll."""
    data_parallel: bool = False
    """True if the server has several engines."""
    last_drafts: LastDrafts | None = None
    """None without any, and of an engine whose schedule always drafts."""
