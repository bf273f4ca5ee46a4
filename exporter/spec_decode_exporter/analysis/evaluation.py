"""Evaluation of one engine: its windows, the window that counts now, and state, verdict and advice by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from propcache.api import cached_property

from spec_decode_exporter.analysis.depth import Depth
from spec_decode_exporter.analysis.knowledge import Drafting, Knowledge
from spec_decode_exporter.analysis.latency_comparison import LatencyComparison, compared_latencies
from spec_decode_exporter.analysis.missing_evidence import (
    MIN_SECONDS,
    MissingEvidence,
    least_seconds,
    missing,
    seconds_to_verdict,
)
from spec_decode_exporter.analysis.recommended_setting import SpeculationSetting, recommended_setting
from spec_decode_exporter.analysis.verdict import (
    SHARES,
    WHOLE_WINDOW,
    Action,
    Advice,
    Decision,
    State,
    Verdict,
    decoded_steps,
    is_stalled,
)
from spec_decode_exporter.analysis.window_evaluation import WindowEvaluation
from spec_decode_exporter.scrape.engines import Latency
from spec_decode_exporter.scrape.sample import Buckets
from spec_decode_exporter.window.engine_windows import MIN_INCREMENTS, Means, Window
from spec_decode_exporter.window.histograms import Answers
from spec_decode_exporter.window.poll import UNKNOWN
from spec_decode_exporter.window.ring import Increments

_NO_DATA: Final = WindowEvaluation(
    Window(0.0, 0.0, 0, UNKNOWN, (), Means(), Increments.of((), ()), Answers()),
    Knowledge(drafting=Drafting.OFF),
)


class Basis(StrEnum):
    """Reason why a window is the evaluated one."""

    LONGEST = "longest"  # it is the longest window, which may still fill up
    CHANGE = "change"  # it begins at the last detected change
    SHORTER = "shorter"  # it contradicts the longer windows


Shown = tuple[Decision, SpeculationSetting]
"""Decision and setting to show in place of those of the newest windows alone."""


class Evaluation:
    """Evaluation of an engine's windows, ascending by length; none of an engine that is gone.

    Each value is computed once, when it is first read. All values of an engine that is gone are absent.
    """

    def __init__(
        self,
        windows: Sequence[Window],
        known: Knowledge,
        latencies: Mapping[Latency, Buckets] | None = None,
        shown: Callable[[Evaluation], Shown] | None = None,
    ) -> None:
        """Evaluate windows, and histograms of the longest one; ``shown`` returns what to show at the end."""
        self.known = known
        self.latencies = latencies or {}
        self.windows = tuple(WindowEvaluation(window, known) for window in windows)
        self._shown = shown(self) if shown else None

    @property
    def longest(self) -> WindowEvaluation:
        """The longest window; one without data of an engine that is gone."""
        return self.windows[-1] if self.windows else _NO_DATA

    # State and evaluated window

    @cached_property
    def state(self) -> State:
        """State of speculation."""
        known = self.known
        if not self.windows or known.is_gone:
            return State.UNREACHABLE
        if known.drafting is Drafting.OFF:
            return State.DISABLED
        if not known.speculates or not self.longest.window.seconds:
            return State.UNKNOWN
        recent = self._shorter(known.recent) or self.longest.window
        should_draft = (
            known.has_drafted
            and known.speculation.paused_from(recent.mean.running_requests) is None
            and not known.drafts_what_it_finds
        )
        if should_draft and is_stalled(recent, known.policy.min_drafts):
            return State.STALLED
        is_busy = self.longest.window.mean.running_requests or decoded_steps(self.longest.window)
        return State.ACTIVE if self.longest.total.drafts or is_busy else State.IDLE

    @cached_property
    def verdict_window(self) -> WindowEvaluation:
        """The window that a verdict is about: the newest data that are enough and not contradicted.

        It begins at the last change. A shorter window replaces it if both cannot be right. It has no data if
        the engine is gone.
        """
        chosen = self._since_change
        if chosen.is_partial:
            return chosen
        for shorter in reversed(self.windows):
            seconds = shorter.window.seconds
            is_shorter = MIN_SECONDS <= seconds < chosen.window.seconds and not shorter.is_partial
            if is_shorter and shorter.contradicts(chosen):
                chosen = shorter
        return chosen

    @property
    def _since_change(self) -> WindowEvaluation:
        """Window since the last change, or the longest; partial unless it has bounds or is half as long."""
        window = self._shorter(self.known.since_change) or self.longest.window
        longest = self.longest.window.length
        if window is self.longest.window and (not self.longest.is_partial or not self.windows):
            return self.longest
        whole = WindowEvaluation(window, self.known, is_partial=window.polls < MIN_INCREMENTS)
        is_enough = window.seconds >= least_seconds(window.length, longest)
        if (is_enough and whole.acceptance_length_bounds is not None) or window.seconds >= longest / 2:
            return whole
        return WindowEvaluation(window, self.known, is_partial=True)

    def _shorter(self, window: Window | None) -> Window | None:
        """Return a window if it is shorter than the longest one."""
        return window if window is not None and window.length < self.longest.window.length else None

    @cached_property
    def basis(self) -> Basis:
        """Reason for ``verdict_window``."""
        if self.verdict_window in self.windows[:-1]:
            return Basis.SHORTER
        return Basis.CHANGE if self._shorter(self.known.since_change) else Basis.LONGEST

    @property
    def since(self) -> float | None:
        """Unix time of the change at which ``verdict_window`` begins; None if it begins at none."""
        return self.known.change_wall if self.basis is Basis.CHANGE else None

    @property
    def is_early(self) -> bool:
        """True if ``verdict_window`` covers less than half of the longest window."""
        return self.verdict_window.window.seconds < self.longest.window.length / 2

    @property
    def is_whole(self) -> bool:
        """True if ``verdict_window`` covers a whole longest window."""
        return self.verdict_window.window.seconds >= WHOLE_WINDOW * self.longest.window.length

    # Verdict

    @property
    def verdict(self) -> Verdict:
        """Verdict to show."""
        return self.decision.verdict

    @property
    def pays_share_ratio(self) -> float | None:
        """Share of the possible speed-ups at which speculation pays; 0 or 1 by a verdict that is sure."""
        is_unclear = self.verdict is Verdict.UNCLEAR
        return self.verdict_window.pays_share_ratio if is_unclear else SHARES.get(self.verdict)

    @property
    def is_excluded(self) -> bool:
        """True if the bounds of the shortest window exclude that speculation pays."""
        shortest, even = self.windows[0] if self.windows else _NO_DATA, self.known.policy.speedup.harmful
        return shortest.excludes(shortest.estimated_speedup_ratio, "speedup_bounds", even)

    @property
    def gains_nothing(self) -> bool:
        """True if the tokens per step of the shortest window are too few to pay, whatever drafting costs."""
        shortest, least = self.windows[0] if self.windows else _NO_DATA, self.known.policy.speedup.poor
        return shortest.excludes(shortest.effective_tokens_per_step, "tokens_per_step_bounds", least)

    @cached_property
    def missing(self) -> tuple[MissingEvidence, ...]:
        """Evidence that a verdict needs, any one of them; empty with a verdict."""
        is_missing = bool(self.windows) and self.verdict_window.verdict is Verdict.INSUFFICIENT
        return missing(self.verdict_window, self.longest.window.length) if is_missing else ()

    @property
    def seconds_to_verdict(self) -> float | None:
        """Seconds from the newest poll to the first verdict; None with one, or if time alone brings none."""
        is_missing = bool(self.windows) and self.verdict is Verdict.INSUFFICIENT
        return seconds_to_verdict(self.verdict_window, self.longest.window.length) if is_missing else None

    @cached_property
    def latency_comparison(self) -> LatencyComparison | None:
        """Latencies of the longest window beside those of a baseline; None without one."""
        return compared_latencies(self.latencies, self.longest, self.known.latency_baseline)

    @cached_property
    def crossover(self) -> float | None:
        """Running requests above which speculation does not pay; None if the engine adapts to the load."""
        window = self.verdict_window
        return self.known.cost.crossover(window.work) if window.counts_verified else None

    # Advice

    @cached_property
    def is_advisable(self) -> bool:
        """True with a verdict since a change, or over a whole longest window."""
        if self.verdict_window.verdict is Verdict.INSUFFICIENT or self.basis is Basis.SHORTER:
            return False
        return self.basis is Basis.CHANGE or self.is_whole

    @cached_property
    def computed_decision(self) -> Decision:
        """Decision by these windows alone."""
        advice = self.verdict_window.advice(self.crossover) if self.is_advisable else Advice()
        return Decision(self.verdict_window.verdict, advice)

    @property
    def decision(self) -> Decision:
        """Decision to show."""
        return self._shown[0] if self._shown else self.computed_decision

    @property
    def action(self) -> Action:
        """Recommended action to show."""
        return self.decision.advice.action

    @cached_property
    def depths(self) -> list[Depth]:
        """Numbers of draft tokens from 1 on with their speed-up, by the evaluated window."""
        its = self.verdict_window
        return [] if its.cost is None or its.depths is None else its.depths.each(its.cost.guess)

    @cached_property
    def setting(self) -> SpeculationSetting:
        """Setting to show."""
        return self._shown[1] if self._shown else self.setting_by(self.decision.advice)

    def setting_by(self, advice: Advice) -> SpeculationSetting:
        """Return the recommended setting by these windows and an advice."""
        return recommended_setting(self.verdict_window, advice, self.longest.window.mean.running_requests)

    # Readers

    def compute_for_readers(self) -> None:
        """Compute what most readers read from columns of increments, and drop the columns."""
        _ = self.state, self.depths, self.crossover, self.setting
        for its in {self.longest, self.verdict_window}:  # of others documents and ``full`` alone show bounds
            _ = its.draft_acceptance_bounds, its.tokens_per_step_bounds, its.break_even_cost_bounds
            _ = its.speedup_range, its.request
        self.release_columns()

    def release_columns(self) -> None:
        """Drop the columns of increments; what is read later computes them again."""
        for its in (*self.windows, vars(self).get("verdict_window", self.longest)):
            for name in ("increments", "works", "terms", "depths", "poll_rates"):
                vars(its).pop(name, None)


class FallbackEvaluation(Evaluation):
    """Evaluation after an internal error: figures without cost and bounds."""

    def __init__(self, windows: Sequence[Window], known: Knowledge) -> None:
        """Take the windows of a present engine."""
        super().__init__(windows, known)
        unknown = Knowledge(known.speculation, policy=known.policy, drafting=Drafting.OFF)
        self.windows = tuple(WindowEvaluation(window, unknown, is_partial=True) for window in windows)

    @cached_property
    def verdict_window(self) -> WindowEvaluation:
        """The longest window, which has no verdict."""
        return self.longest

    @cached_property
    def missing(self) -> tuple[MissingEvidence, ...]:
        """None: more data give no verdict."""
        return ()
