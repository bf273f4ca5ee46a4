"""Forecast of scrapes: Prometheus scrapes a target at fixed moments, once per interval."""

from __future__ import annotations

from math import nan
from typing import Final, NamedTuple

TOLERANCE: Final = 0.5
"""Seconds by which two intervals of a regular client differ at most."""
MAX_INTERVAL: Final = 300.0
"""Longest interval in seconds: Prometheus forgets a sample after five minutes."""
MAX_CLIENTS: Final = 16
"""Clients whose intervals are known; a new one replaces the one that scraped the longest time ago."""


class _Scrape(NamedTuple):
    moment: float
    interval: float
    """Seconds since the client's scrape before; not a number for its first."""


class ScrapeForecast:
    """Tells the next scrape of clients that scrape regularly."""

    def __init__(self) -> None:
        self._last: dict[str, _Scrape] = {}
        """Last scrape of each client, the oldest first."""

    def next_scrape(self, client: str, moment: float) -> float | None:
        """Record a scrape at ``moment``, in seconds; return the client's next one.

        None if the last three scrapes of the client were not evenly spaced, or more than five minutes apart.
        """
        before = self._last.pop(client, _Scrape(nan, nan))
        interval = moment - before.moment
        self._last[client] = _Scrape(moment, interval)
        if len(self._last) > MAX_CLIENTS:
            del self._last[next(iter(self._last))]
        is_regular = abs(interval - before.interval) <= TOLERANCE and interval <= MAX_INTERVAL
        return moment + interval if is_regular else None
