"""History of an engine with samples of the test."""

from __future__ import annotations

import pytest

from spec_decode_exporter.window.engine_history import EngineHistory

WALL = 1_790_000_000.0
"""Unix time at which the tests' monotonic clock is 0."""


class Fed:
    """History with the time of its newest poll; both clocks run at the same rate."""

    def __init__(self, longest=300.0, interval=1.0, *, always_counts_drafts=False) -> None:
        self.history = EngineHistory(longest, always_counts_drafts=always_counts_drafts)
        self.interval = interval
        self.moment = 0.0

    def poll(self, sample, after=None, *, wall=None):
        """Add a sample ``after`` seconds, by default an interval, after the previous one."""
        self.moment += self.interval if after is None else after
        return self.history.observe(
            sample, self.moment, WALL + self.moment if wall is None else wall, self.interval
        )

    def window(self, length):
        return self.history.window(length)


@pytest.fixture(scope="session")
def fed():
    return Fed


@pytest.fixture(scope="session")
def at():
    """Return the Unix time of a moment."""
    return lambda moment: WALL + moment
