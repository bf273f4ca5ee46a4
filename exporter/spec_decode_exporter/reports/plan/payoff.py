"""The return on the memory that drafting takes.

    (speed-up - 1) · baseline throughput / (draft memory + overhead)

in tokens a second gained for each GB: of the draft's weights, copies included, and of the part of the KV
cache that holds the draft's own keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass

from spec_decode_exporter.reports.plan.memory_sizes import GIGABYTE


@dataclass(frozen=True, slots=True)
class Payoff:
    """What drafting brings, for what it takes. Rates are of one engine."""

    speedup: float
    tokens: int
    """With so many draft tokens."""
    baseline_tokens_per_second: float
    """Without speculation."""
    weight_bytes: int
    cache_bytes: int
    """The draft's part of the KV cache; 0 where that is not known."""
    measured: bool
    """Whether speed-up and throughput were observed."""
    lower: float | None = None
    """Of the speed-up, with 95 % confidence; None where nobody knows."""
    upper: float | None = None

    @property
    def memory_bytes(self) -> int:
        """What drafting takes of the GPUs."""
        return self.weight_bytes + self.cache_bytes

    @property
    def gained_tokens_per_second(self) -> float:
        """Above the baseline; below 0 where speculation makes it slower."""
        return (self.speedup - 1) * self.baseline_tokens_per_second

    @property
    def tokens_per_second_per_gigabyte(self) -> float | None:
        """The return; None where drafting takes no memory."""
        return self._per_gigabyte(self.speedup)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Where the return lies with 95 % confidence: by the speed-up's bounds, at the same baseline."""
        if self.lower is None or self.upper is None:
            return None
        low, high = self._per_gigabyte(self.lower), self._per_gigabyte(self.upper)
        return None if low is None or high is None else (low, high)

    def _per_gigabyte(self, speedup: float) -> float | None:
        if not self.memory_bytes:
            return None
        return (speedup - 1) * self.baseline_tokens_per_second / (self.memory_bytes / GIGABYTE)
