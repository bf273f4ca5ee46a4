"""Knowledge of an engine besides its windows."""

from __future__ import annotations

from dataclasses import dataclass, field

from spec_decode_exporter.analysis.cost import CostModel
from spec_decode_exporter.analysis.verdict import drafts_what_it_finds
from spec_decode_exporter.window.history import Window
from spec_decode_exporter.analysis.request_baseline import RequestBaseline
from spec_decode_exporter.analysis.speculation import Speculation
from spec_decode_exporter.config.policy import Policy


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All that an evaluation depends on besides the windows."""

    speculation: Speculation = field(default_factory=Speculation)
    cost: CostModel = field(default_factory=CostModel)
    policy: Policy = field(default_factory=Policy)
    speculates: bool = True
    is_undecided: bool = False
    """True if it is not known yet whether the engine speculates."""
    has_drafted: bool = False
    """True if the engine drafted since the server's process began."""
    recent: Window | None = None
    """Window in which a stall shows; None: the longest."""
    since_change: Window | None = None
    """Window since the last detected change; None without one within the longest window."""
    changes: int = 0
    """Number of changes and window resets so far: one ends the advice of the time before it."""
    request_baseline: RequestBaseline | None = None
    """Requests of the same model without speculation; None if unknown."""
    has_better_method: bool = False
    """Another method for the same model is significantly faster, by an experiment."""

    @property
    def drafts_what_it_finds(self) -> bool:
        """True if the method drafts only if text repeats itself, as n-gram and suffix do."""
        return drafts_what_it_finds(self.speculation.method)
