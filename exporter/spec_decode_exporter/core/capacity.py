"""Number of engines that fit into the memory of the container, and the fair share of a limit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

WITHOUT_LIMIT: Final = 2_000
"""Engines without a limit in the configuration or of a container."""
MIN_ENGINES: Final = 16
"""Engines in the smallest container."""

_OWN_MEMORY: Final = 80 * 2**20
"""Bytes of the process without engines, during a request of the page."""
_ENGINE_MEMORY: Final = 256 * 2**10
"""Bytes of an engine with full windows, during a request of the page: `python -m benchmarks.thousand`."""
_MEMORY_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Files with the memory limit of the container: cgroups of version 2 and 1."""


def container_memory(files: Iterable[Path] = _MEMORY_LIMITS) -> int | None:
    """Return the memory limit of the container in bytes; None without one, or if it is unknown."""
    for file in files:
        try:
            text = file.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        return int(text) if text.isdecimal() else None
    return None


def engines_that_fit(memory: int | None) -> int:
    """Return the number of engines that fit into ``memory`` bytes; None is no limit."""
    if memory is None:
        return WITHOUT_LIMIT
    return min(WITHOUT_LIMIT, max(MIN_ENGINES, (memory - _OWN_MEMORY) // _ENGINE_MEMORY))


def fair_share(demands: Iterable[int], places: int) -> int:
    """Return the largest share for which all demands, each cut to the share, fit into ``places``.

    This is max-min fairness. The share is at least 1.
    """
    share, left = 0, sorted(demands, reverse=True)
    while left and places // len(left) > share:
        share = places // len(left)
        while left and left[-1] <= share:
            places -= left.pop()
    return max(share, 1)
