"""Raw poll: a page as its server sent it, or the reason for a missing one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from spec_decode_exporter.scrape.errors import Reason
from spec_decode_exporter.scrape.poll.server_info import ServedSpeculation


class RawPoll(NamedTuple):
    """One poll of a target, as recordings hold it."""

    target: str
    """Name of the target."""
    moment: float
    """Time of the poll's end (monotonic)."""
    wall: float
    """Time of the poll's end (Unix time)."""
    page: bytes | None
    """The page after decompression; None after a failure."""
    error: Reason | None = None
    """Reason of a failure."""
    speculation: ServedSpeculation | None = None
    """Speculation settings that the server reported before the poll."""


Recorded = Callable[[RawPoll], None]
"""Takes each poll of a target, failed ones included."""
