"""Time of requests: until the first token, and decoding.

The time of a request is its time to the first token plus its inter-token latencies: so are the server's own
sums, Σ e2e = Σ time to first token + Σ inter-token latency. F first tokens.
"""

from __future__ import annotations

from typing import NamedTuple

from spec_decode_exporter.figures.latency import decode_seconds
from spec_decode_exporter.figures.ratio import ratio
from spec_decode_exporter.scrape.page.engine_table import Counter
from spec_decode_exporter.window.ledger import NANO, Window


class RequestTime(NamedTuple):
    """Parts of the requests' time in a window, in seconds."""

    first_token: float
    """Σ time to first token, time in the queue included."""
    decoding: float
    """Σ inter-token latency."""

    @property
    def total(self) -> float:
        """Time of the requests; above 0."""
        return self.first_token + self.decoding


def request_time(window: Window) -> RequestTime | None:
    """Return the requests' time; None without it, or if no request began in the window."""
    waited, decoding = window[Counter.FIRST_TOKEN_NANOSECONDS], decode_seconds(window)
    if waited is None or decoding is None or not window[Counter.FIRST_TOKENS]:
        return None
    time = RequestTime(waited / NANO, decoding)
    return time if time.total > 0 else None


def time_to_first_token_seconds(window: Window) -> float | None:
    """Return the mean time to first token, in seconds: Σ time to first token / F."""
    waited = window[Counter.FIRST_TOKEN_NANOSECONDS]
    return None if waited is None else ratio(waited / NANO, window[Counter.FIRST_TOKENS])


def first_token_time_ratio(window: Window) -> float | None:
    """Return w_f, the share of the requests' time until the first token; 1 - w_f is decoding."""
    time = request_time(window)
    return None if time is None else time.first_token / time.total
