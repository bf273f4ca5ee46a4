"""Log a lasting failure once: when it begins or changes its reason, and when it ends."""

from __future__ import annotations


class OnceUntilRecovered:
    """Decides whether to log the failures and recoveries of one recurring operation."""

    def __init__(self) -> None:
        """Begin without a failure."""
        self._reason: str | None = None

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""
        return self._reason is not None

    def failed(self, reason: str = "") -> bool:
        """Note a failure; return whether to log it: it is the first, or its reason is new."""
        is_new = reason != self._reason
        self._reason = reason
        return is_new

    def recovered(self) -> bool:
        """Note a success; return whether to log it: it ends a failure."""
        was_failing, self._reason = self.is_failing, None
        return was_failing
