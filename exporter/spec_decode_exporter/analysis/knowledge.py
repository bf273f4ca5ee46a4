"""Knowledge of an engine besides its windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.comparison_settings import CostSettings, ReferenceSettings
from spec_decode_exporter.config.policy import Policy
from spec_decode_exporter.config.types import SettingsPlace
from spec_decode_exporter.costs.baseline import BaselineSummary
from spec_decode_exporter.costs.cost import CostByLoad, CostSources
from spec_decode_exporter.costs.methods import drafts_what_it_finds
from spec_decode_exporter.figures.estimate import Estimate
from spec_decode_exporter.scrape.sample import KvCache
from spec_decode_exporter.window.engine_windows import Window


class Drafting(StrEnum):
    """Knowledge whether an engine speculates."""

    DRAFTS = "drafts"
    OFF = "off"  # a page of an engine that would show drafts, and shows none
    UNDECIDED = "undecided"  # more requests will tell
    UNCOUNTED = "uncounted"
    """The engine yields more than a token a decode step, but its page does not count drafts."""
    UNKNOWN = "unknown"  # its page does not tell

    @property
    def speculates(self) -> bool | None:
        """Whether it speculates; None if that is unknown."""
        return {Drafting.DRAFTS: True, Drafting.OFF: False}.get(self)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Knowledge from configuration and discovery, and the thresholds of an evaluation."""

    speculation: Speculation = field(default_factory=Speculation)
    cost: CostSettings | None = None
    policy: Policy = field(default_factory=Policy)
    reference: ReferenceSettings | None = None  # acceptance to compare with; None if unknown
    engine_kind: str = ""  # name of the engine in the table of engines; empty if unknown
    server: str = ""  # URL of the server's page without credentials; empty if unknown
    kv_cache: KvCache | None = None  # KV cache that speculation leaves; None if the page does not show it
    settings_place: SettingsPlace = "flags"
    front_end: str = ""  # ``PageReading.front_end`` of the server
    data_parallel: bool = False  # True if the server has several engines

    def cost_model(self, measured: Sequence[CostByLoad]) -> CostSources:
        """Return all that is known of the cost; ``measured`` has the most certain source first."""
        its = self.speculation
        return CostSources(self.cost, tuple(measured), its.method, its.architecture, its.drafts_in_parallel)


@dataclass(frozen=True, slots=True)
class FasterMethod:
    """Arm of an experiment that is faster than the engine's own, by token and end to end (95 %)."""

    experiment: str
    arm: str  # name of the faster arm
    method: str  # method of that arm, as its servers or their configuration name it
    speedup: Estimate  # speed-up of that arm over the baseline
    own: Estimate  # speed-up of the engine's own arm over the baseline


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All that an evaluation depends on besides the windows."""

    speculation: Speculation = field(default_factory=Speculation)
    cost: CostSources = field(default_factory=CostSources)
    policy: Policy = field(default_factory=Policy)
    drafting: Drafting = Drafting.DRAFTS
    is_gone: bool = False  # True if the engine was absent for too long, though its last windows are evaluated
    has_drafted: bool = False  # True if the engine drafted since the server's process began
    recent: Window | None = None  # window of ``STALL_SECONDS`` in which a stall shows; None: the longest
    since_change: Window | None = None
    """Window since the last detected change; None without one within the longest window."""
    change_wall: float | None = None  # Unix time of that change
    baseline: BaselineSummary | None = None  # time of the same model without speculation; None if unknown
    latency_baseline: BaselineSummary | None = None
    """Newest such time with histograms, of the engine's target or of an arm without speculation."""
    faster_method: FasterMethod | None = None
    """Another method for the same model that is significantly faster, by an experiment."""
    last_drafts: tuple[Window, float] | None = None
    """Newest window with a verdict whose last poll had drafts, and the Unix time of that poll.

    Its acceptance counts while a schedule drafts nothing. None if it always drafts, and after a change.
    """
    prefill_shares: dict[float, float] | None = None
    """Shares of prefills in long windows by length, filled when they are first read; None: none is kept."""
    wall: float = 0.0  # Unix time of the newest poll
    assumed: Assumptions = field(default_factory=Assumptions)
    """What was known before the first poll, and of the server."""

    @property
    def speculates(self) -> bool:
        """True if the engine is known to speculate."""
        return self.drafting is Drafting.DRAFTS

    @property
    def drafts_what_it_finds(self) -> bool:
        """True if the method drafts only if text repeats itself, as n-gram and suffix do."""
        return drafts_what_it_finds(self.speculation.method)

    @property
    def drafts_in_every_step(self) -> bool:
        """True if the method drafts in every step; False if it is unknown."""
        return bool(self.speculation.method) and not self.drafts_what_it_finds
