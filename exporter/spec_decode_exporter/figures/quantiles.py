"""Exported quantiles: their label, its values, and their names in the API, on the page and in reports."""

from __future__ import annotations

from typing import Final, NamedTuple


class Quantile(NamedTuple):
    """A quantile and its name."""

    name: str
    """Field of the API, and word on the page and in reports: ``p99``."""
    share: float
    """Between 0 and 1."""

    @property
    def label(self) -> str:
        """The value of the label ``quantile``: ``0.99``."""
        return f"{self.share:g}"


QUANTILE_LABEL: Final = "quantile"
"""Label of every metric with quantiles; their names contain this word too."""

_P10: Final = Quantile("p10", 0.10)
_P50: Final = Quantile("p50", 0.50)
_P90: Final = Quantile("p90", 0.90)
_P95: Final = Quantile("p95", 0.95)
_P99: Final = Quantile("p99", 0.99)

LATENCY_QUANTILES: Final = (_P50, _P95, _P99)
"""Quantiles of the server's latencies."""
SPREAD_QUANTILES: Final = (_P10, _P50, _P90)
"""Quantiles over polls, and over requests."""
ARM_QUANTILES: Final = (_P50, _P95)
"""Quantiles of the time to first token of an arm."""
QUANTILES: Final = tuple(sorted({*LATENCY_QUANTILES, *SPREAD_QUANTILES, *ARM_QUANTILES}))
"""Each exported quantile once."""
