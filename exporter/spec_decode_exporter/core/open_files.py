"""Raise the process's limit of open files."""

from __future__ import annotations

import resource
from contextlib import suppress


def raise_limit() -> None:
    """Raise the soft limit to the hard limit, as programs in Go do.

    The soft limit is often 1,024 for programs that use ``select``. This one does not, and a thousand targets
    need more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The hard limit of macOS is higher than the system allows.
    with suppress(OSError, ValueError):
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
