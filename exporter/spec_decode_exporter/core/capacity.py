"""Capacity: the number of engines that the process monitors, shared fairly among targets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

WITHOUT_LIMIT: Final = 2_000
"""Engines without a limit in the configuration or of a container."""
MIN_ENGINES: Final = 16
"""Engines in the smallest container."""

PLACE_POSITIONS: Final = 16
"""Draft positions of an engine that takes one place."""
PLACE_LABELS: Final = 256
"""Bytes of all label values of an engine that takes one place."""

_OWN_MEMORY: Final = 80 * 2**20
"""Bytes of the process without engines, during a request of the page."""
_ENGINE_MEMORY: Final = 256 * 2**10
"""Bytes of an engine with full windows, during a request of the page: `python -m benchmarks.thousand`."""
_MEMORY_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Files with the memory limit of the container: cgroups of version 2 and 1."""

_REST_OF_ENGINE: Final = 16
"""Draft positions that cost as much as the rest of an engine, in windows and on /metrics."""

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


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


@lru_cache(maxsize=4096)
def places_of(positions: int, label_bytes: int) -> int:
    """Return the number of places that an engine takes, by its share of memory and of /metrics.

    Args:
        positions: Its draft positions.
        label_bytes: Bytes of all its label values, which every one of its samples repeats.
    """
    columns = (_REST_OF_ENGINE + positions) / (_REST_OF_ENGINE + PLACE_POSITIONS)
    return max(1, ceil(columns * max(1.0, label_bytes / PLACE_LABELS)))


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


def shared_evenly(groups: Mapping[Key, Sequence[Item]], places: int) -> dict[Key, Sequence[Item]]:
    """Return the first items of each group, as many as its fair share of ``places``.

    Places that remain go to the first groups.
    """
    share = fair_share(map(len, groups.values()), places)
    left = places - sum(min(len(items), share) for items in groups.values())
    taken: dict[Key, Sequence[Item]] = {}
    for key, items in groups.items():
        extra = 1 if left > 0 and len(items) > share else 0
        left -= extra
        taken[key] = items[: share + extra]
    return taken


class Capacity:
    """Shares the places for engines among targets: many engines of one target displace none of another."""

    def __init__(self, limit: int) -> None:
        """Share ``limit`` places: one for an engine, more for a large one."""
        self._limit = limit
        self._demands: dict[Hashable, _Demand] = {}
        self._demanded = 0
        self._granted: Mapping[Hashable, int] | None = None

    @property
    def limit(self) -> int:
        """The number of places, of all targets together."""
        return self._limit

    @limit.setter
    def limit(self, limit: int) -> None:
        self._limit = limit
        self._granted = None

    @property
    def demanded(self) -> int:
        """The number of places that all targets demand, the limit at most."""
        return min(self._demanded, self._limit)

    def places(self, target: Hashable, demand: int, least: int = 1) -> int:
        """Register the demand of ``target``; return the number of places that it may take.

        ``least`` is the places of its smallest engine: a smaller grant is useless.
        """
        wanted = _Demand(demand, min(least, demand))
        known = self._demands.get(target)
        if wanted != known:
            self._demands[target] = wanted
            self._demanded += demand - (known or _NO_DEMAND).places
            self._granted = None
        if self._demanded <= self._limit:
            return demand
        if self._granted is None:
            self._granted = _grants(self._demands, self._limit)
        return self._granted[target]

    def release(self, target: Hashable) -> None:
        """Release the places of a removed target."""
        self._demanded -= self._demands.pop(target, _NO_DEMAND).places
        self._granted = None


class _Demand(NamedTuple):
    """Demand of a target: its places, and those of its smallest engine."""

    places: int
    least: int


_NO_DEMAND: Final = _Demand(0, 0)


def _grants(demands: Mapping[Hashable, _Demand], places: int) -> dict[Hashable, int]:
    """Share the places fairly. A useless share goes to the first targets that can use it."""
    share = fair_share((demand.places for demand in demands.values()), places)
    granted = {
        target: min(demand.places, share) if demand.least <= share else 0
        for target, demand in demands.items()
    }
    left = places - sum(granted.values())
    for target, demand in demands.items():
        if share < demand.least <= left:
            granted[target] = demand.least
            left -= demand.least
    return granted
