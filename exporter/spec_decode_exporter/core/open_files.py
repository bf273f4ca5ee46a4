"""How many connections and files the process may have open at a time."""

from __future__ import annotations

import resource
from contextlib import suppress


def raise_limit() -> None:
    """Take as many descriptors as the system lets the process have, as programs written in Go do.

    The soft limit is often 1,024 for the sake of programs that use ``select``, which this one does not;
    a thousand targets need more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # What macOS calls its hard limit is more than it lets anybody have.
    with suppress(OSError, ValueError):
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
