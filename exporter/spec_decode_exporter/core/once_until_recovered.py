"""Log a lasting failure once: when it begins or changes its reason, and when it ends."""

from __future__ import annotations


class OnceUntilRecovered:
    """Decides whether to log the failures and recoveries of one recurring operation."""

    def __init__(self) -> None:
        """Begin without a failure."""
        self._failing = False
        self.reason = ""
        """Reason of the present failure; empty without one."""

    @property
    def is_failing(self) -> bool:
        """True if the last attempt failed."""
        return self._failing

    def failed(self, reason: str = "") -> bool:
        """Note a failure; return whether to log it: it is the first, or its reason is new."""
        is_new = not self._failing or reason != self.reason
        self._failing, self.reason = True, reason
        return is_new

    def recovered(self) -> bool:
        """Note a success; return whether to log it: it ends a failure."""
        was_failing = self._failing
        self._failing, self.reason = False, ""
        return was_failing
