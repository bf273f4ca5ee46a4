"""Percentiles over requests, as ``statistics.quantiles(…, method="inclusive")`` has them.

That is the seventh of Hyndman and Fan (*Sample quantiles in statistical packages*, 1996), and NumPy's own:
between the two requests nearest to the place p·(n - 1), by a straight line.
"""

from __future__ import annotations

from collections.abc import Sequence

from spec_decode_exporter.requests.request_findings import Percentiles


def percentiles(ascending: Sequence[float]) -> Percentiles | None:
    """Return the percentiles of ascending values, each of which counts once; None of none."""
    if not ascending:
        return None
    return Percentiles(*(percentile(ascending, share) for share in (10, 50, 90)))


def percentile(ascending: Sequence[float], share: int) -> float:
    """Return the value below which ``share`` percent of one or more ascending values are."""
    place, part = divmod(share * (len(ascending) - 1), 100)
    below = ascending[place]
    return below + (ascending[place + 1] - below) * part / 100 if part else below
