"""The decision that is shown, verdict and advice as one, and the setting: each changes by one rule."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from spec_decode_exporter.analysis.recommended_setting import UNKNOWN_SETTING, SpeculationSetting
from spec_decode_exporter.analysis.verdict import NOT_PAYING, PAYING, Action, Decision, Verdict

STAYED_SECONDS: Final = 180.0
"""Time for which another decision must be offered without interruption."""
ABSENT_SECONDS: Final = 360.0
"""Time for which the shown decision must be absent while several others alternate."""
DOUBT_SECONDS: Final = 60.0
"""Time for which "pays" stays when only doubt is new: by chance, a window of 30 s raises it for less."""
SETTING_SECONDS: Final = 300.0
"""Minimum seconds between two computations of the recommended setting, which takes milliseconds."""
_BAD_NEWS: Final = {Verdict.UNCLEAR, *NOT_PAYING}


class ShownDecision:
    """Keeps a decision until another one lasts; bad news and the first advice are shown at once."""

    def __init__(self) -> None:
        """Show the first decision that is offered."""
        self.shown = self._newest = Decision()
        self._offered_since = self._shown_at = self._paid_at = -inf
        """Moments: the newest one is offered since, the shown one was offered last, and "pays" was."""
        self._paying_since = inf
        """Moment since which all that is offered pays, whatever its grade."""
        self._is_early = True
        """True until the first advice: so few data may say unclear of what is not."""

    def offer(
        self, decision: Decision, now: float, *, may_pay: bool = True, is_likely: bool = False
    ) -> Decision:
        """Return the decision to show at ``now`` (monotonic).

        Args:
            decision: Decision by the newest windows.
            now: Seconds.
            may_pay: False if the shortest window excludes that speculation pays, at any cost or in a drop.
            is_likely: True if speculation pays by the best guess, whatever the bounds.
        """
        if not may_pay and decision.verdict in PAYING:
            decision = Decision()
        if decision != self._newest:
            self._newest, self._offered_since = decision, now
        if decision.verdict in PAYING:
            self._paid_at, self._paying_since = now, min(self._paying_since, now)
        else:
            self._paying_since = inf
        is_doubt = may_pay and is_likely and now - self._paid_at < DOUBT_SECONDS
        is_news = self._is_news(decision, may_pay=may_pay, is_doubt=is_doubt)
        if is_news or self._is_over(now) or decision == self.shown:
            self.shown, self._shown_at = decision, now
        self._is_early = self._is_early and self.shown.advice.action is Action.COLLECT
        return self.shown

    def reset(self) -> None:
        """Show the next decision at once: what the shown one is about has changed."""
        self.shown = self._newest = Decision()
        self._is_early = True

    def _is_news(self, decision: Decision, *, may_pay: bool, is_doubt: bool) -> bool:
        """Return whether nothing or no advice is shown yet, or whether "pays" is no longer true."""
        before, paid = self.shown, self.shown.verdict in PAYING
        is_doubted = is_doubt and decision.verdict is Verdict.UNCLEAR
        is_bad = not may_pay or (decision.verdict in _BAD_NEWS and not is_doubted)
        is_early = self._is_early and before.verdict is Verdict.UNCLEAR
        if before.verdict is Verdict.INSUFFICIENT or is_early or (paid and is_bad):
            return True
        is_better = not paid and decision.verdict in PAYING
        is_first = before.advice.action is Action.COLLECT and decision.advice.action is not Action.COLLECT
        return is_first and not is_better

    def _is_over(self, now: float) -> bool:
        is_known = self.shown.verdict is Verdict.UNCLEAR and now - self._paying_since >= STAYED_SECONDS
        is_steady = now - self._offered_since >= STAYED_SECONDS
        return is_steady or is_known or now - self._shown_at >= ABSENT_SECONDS


class ShownSetting:
    """Keeps the setting, which is to be copied, until two disjoint windows agree on another one."""

    def __init__(self) -> None:
        """Compute it at the first call of ``offer``."""
        self._shown = self._newest = UNKNOWN_SETTING
        self._basis: object = None
        self._computed_at = -inf

    def offer(
        self, compute: Callable[[], SpeculationSetting], basis: object, now: float, longest: float
    ) -> SpeculationSetting:
        """Return the setting to show at ``now`` (monotonic).

        Args:
            compute: Return the setting by the newest windows.
            basis: Inputs of the setting besides the windows: another one shows another setting at once.
            now: Seconds.
            longest: Length of the longest window in seconds.
        """
        is_another = basis != self._basis
        if is_another or now - self._computed_at >= max(SETTING_SECONDS, longest):
            before, self._newest = self._newest, compute()
            if is_another or _printed(self._newest) in (_printed(before), _printed(self._shown)):
                self._shown = self._newest
            self._basis, self._computed_at = basis, now
        return self._shown


def _printed(setting: SpeculationSetting) -> tuple[object, ...]:
    """Return what an operator copies; speed-ups beside it vary with each window."""
    return setting.tokens, setting.schedule
