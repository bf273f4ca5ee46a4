"""Capacity: the number of engines that the process watches, shared fairly among targets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

WITHOUT_LIMIT: Final = 2_000
"""Engines that are watched where neither the configuration nor a container sets a limit."""
FEWEST: Final = 16
"""Engines that are watched in the smallest container."""

_OWN_MEMORY: Final = 80 * 2**20
"""Bytes of the process without engines, with a page under way."""
_ENGINE_MEMORY: Final = 192 * 2**10
"""Bytes of an engine with full windows and 32 draft positions: `python -m benchmarks.window_memory`."""
_MEMORY_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Where Linux shows the container's limit: with cgroups of version 2, of version 1."""

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
    """Return how many engines fit into ``memory`` bytes; None stands for no limit."""
    if memory is None:
        return WITHOUT_LIMIT
    return min(WITHOUT_LIMIT, max(FEWEST, (memory - _OWN_MEMORY) // _ENGINE_MEMORY))


def fair_share(demands: Iterable[int], places: int) -> int:
    """Return the largest share for which all demands, each cut to the share, fit into ``places``.

    This is max-min fairness. The share is at least 1, so that each gets something.
    """
    share, left = 0, sorted(demands, reverse=True)
    while left and places // len(left) > share:
        share = places // len(left)
        while left and left[-1] <= share:
            places -= left.pop()
    return max(share, 1)


def shared_evenly(groups: Mapping[Key, Sequence[Item]], places: int) -> dict[Key, Sequence[Item]]:
    """Return the first items of each group, as many as its fair share of ``places``.

    Places that the division leaves over go to the groups that come first.
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
    """Shares the places for engines among targets: one that shows many takes none from one that shows few."""

    def __init__(self, most: int) -> None:
        """Watch ``most`` engines in all."""
        self._most = most
        self._demands: dict[Hashable, int] = {}
        self._demanded = 0
        self._share: int | None = None

    @property
    def most(self) -> int:
        """The number of engines that are watched, of all targets together."""
        return self._most

    @most.setter
    def most(self, most: int) -> None:
        self._most = most
        self._share = None

    def places(self, target: Hashable, demand: int) -> int:
        """Note that ``target`` shows ``demand`` engines; return how many of them may be watched."""
        known = self._demands.get(target, 0)
        if demand != known:
            self._demands[target] = demand
            self._demanded += demand - known
            self._share = None
        if self._demanded <= self._most:
            return demand
        if self._share is None:
            self._share = fair_share(self._demands.values(), self._most)
        return min(demand, self._share)

    def release(self, target: Hashable) -> None:
        """Give back the places of a target that is no longer watched."""
        self._demanded -= self._demands.pop(target, 0)
        self._share = None
